#pragma once

// A vector of trivially copyable elements that keeps the first N inside itself. Shapes and operand lists are
// short and made by the million while recording, so they must not touch the heap.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace systole {

template <class T, std::size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() {}
  SmallVector(std::initializer_list<T> list) { assign(list.begin(), list.end()); }
  explicit SmallVector(std::size_t count, T value = T{}) { resize(count, value); }
  template <std::input_iterator It>
  SmallVector(It first, It last) {
    assign(first, last);
  }
  SmallVector(std::span<const T> values) { assign(values.begin(), values.end()); }
  SmallVector(const std::vector<T>& values) { assign(values.begin(), values.end()); }
  SmallVector(const SmallVector& other) { assign(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ ? heap_.get() : reinterpret_cast<T*>(inline_); }
  const T* data() const { return heap_ ? heap_.get() : reinterpret_cast<const T*>(inline_); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(T value) {
    if (size_ == capacity_) reserve(std::max<std::size_t>(2 * capacity_, 4));
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(std::size_t count, T value = T{}) {
    reserve(count);
    for (std::size_t i = size_; i < count; ++i) data()[i] = value;
    size_ = static_cast<std::uint32_t>(count);
  }
  void insert(const_iterator at, T value) {
    const std::size_t i = at - begin();
    push_back(value);
    std::rotate(begin() + i, end() - 1, end());
  }
  void erase(const_iterator at) {
    std::copy(at + 1, const_iterator(end()), begin() + (at - begin()));
    --size_;
  }
  template <std::input_iterator It>
  void assign(It first, It last) {
    clear();
    for (; first != last; ++first) push_back(static_cast<T>(*first));
  }
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    std::unique_ptr<T[]> grown(new T[count]);
    std::memcpy(static_cast<void*>(grown.get()), data(), size_ * sizeof(T));
    heap_ = std::move(grown);
    capacity_ = static_cast<std::uint32_t>(count);
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void take(SmallVector& other) noexcept {
    heap_ = std::move(other.heap_);
    size_ = other.size_;
    if (!heap_ && size_ != 0) std::memcpy(inline_, other.inline_, size_ * sizeof(T));
    capacity_ = other.capacity_;
    other.size_ = 0;
    other.capacity_ = N;
  }

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
  std::unique_ptr<T[]> heap_;
  alignas(T) unsigned char inline_[N * sizeof(T)];
};

using Ints = SmallVector<std::int64_t, 6>;

}  // namespace systole
