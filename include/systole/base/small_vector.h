#pragma once

// A vector of trivially copyable elements that keeps the first N inside itself. Shapes and operand lists are
// short and made by the million while recording, so they must not touch the heap.

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
  SmallVector(std::initializer_list<T> list) { copy(list.begin(), list.size()); }
  explicit SmallVector(std::size_t count, T value = T{}) { resize(count, value); }
  template <std::input_iterator It>
  SmallVector(It first, It last) {
    assign(first, last);
  }
  SmallVector(std::span<const T> values) { copy(values.data(), values.size()); }
  SmallVector(const std::vector<T>& values) { copy(values.data(), values.size()); }
  SmallVector(const SmallVector& other) { copy(other.data(), other.size_); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) copy(other.data(), other.size_);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }

  ~SmallVector() { release(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ != nullptr ? heap_ : reinterpret_cast<T*>(inline_); }
  const T* data() const { return heap_ != nullptr ? heap_ : reinterpret_cast<const T*>(inline_); }
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
    if (size_ == capacity_) reserve(capacity_ < 2 ? 4 : 2 * std::size_t{capacity_});
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
    T* const place = data() + i;
    std::memmove(static_cast<void*>(place + 1), place, (size_ - 1 - i) * sizeof(T));
    *place = value;
  }
  void erase(const_iterator at) {
    T* const place = begin() + (at - begin());
    std::memmove(static_cast<void*>(place), place + 1,
                 static_cast<std::size_t>(end() - place - 1) * sizeof(T));
    --size_;
  }
  template <std::input_iterator It>
  void assign(It first, It last) {
    clear();
    for (; first != last; ++first) push_back(static_cast<T>(*first));
  }
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    T* const grown = std::allocator<T>().allocate(count);
    std::memcpy(static_cast<void*>(grown), data(), size_ * sizeof(T));
    release();
    heap_ = grown;
    capacity_ = static_cast<std::uint32_t>(count);
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.data()[i] == b.data()[i])) return false;
    return true;
  }

 private:
  void copy(const T* values, std::size_t count) {
    clear();
    reserve(count);
    if (count != 0) std::memmove(static_cast<void*>(data()), values, count * sizeof(T));
    size_ = static_cast<std::uint32_t>(count);
  }
  void release() {
    if (heap_ != nullptr) std::allocator<T>().deallocate(heap_, capacity_);
  }
  void take(SmallVector& other) noexcept {
    release();
    heap_ = other.heap_;
    other.heap_ = nullptr;
    size_ = other.size_;
    if (heap_ == nullptr && size_ != 0) std::memcpy(inline_, other.inline_, size_ * sizeof(T));
    capacity_ = other.capacity_;
    other.size_ = 0;
    other.capacity_ = N;
  }

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
  T* heap_ = nullptr;
  alignas(T) unsigned char inline_[N * sizeof(T)];
};

using Ints = SmallVector<std::int64_t, 6>;

}  // namespace systole
