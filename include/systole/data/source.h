#pragma once

// A set of samples to learn from. A sample is a list of arrays, usually an input x and a label y. Anything
// with size() and operator[] that gives such lists is a Dataset; a Source is a handle to one of any kind,
// cheap to copy, with the operations that make other sets of it. Nothing is read before it is asked for.
//
//   data::Source all = data::arrays(images, labels);
//   auto [train, test] = all.split(0.8, /*seed=*/1);
//   std::vector<Literal> batch = train.read(std::array<std::int64_t, 2>{4, 7});   // x[2,…], y[2]
//
// Threads may read one Source at the same time, so a Dataset's operator[] is const and takes no turns.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/tensor/tensor.h"

namespace systole::data {

class Source;
class Transforms;

using Sample = std::vector<Literal>;

inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();  // a size without end
// In place of a field's number: the last, where labels and targets are.
inline constexpr std::size_t kLastField = std::numeric_limits<std::size_t>::max();

struct Field {
  std::string name;
  Type type;                         // of one sample; a dimension that differs between samples is a symbol
  std::vector<std::string> classes;  // what the numbers of a label, or the symbols of a text, stand for
};

struct SYSTOLE_API Info {
  std::string name;
  std::vector<Field> fields;
  std::int64_t size = 0;

  std::string to_string() const;  // "mnist: 60000 samples, x u8[28,28], y i32[] of 10 classes"
};

namespace detail {

template <class T>
struct IsArrays : std::bool_constant<std::same_as<T, Literal> || std::same_as<T, Tensor>> {};
template <class... T>
struct IsArrays<std::tuple<T...>> : std::bool_constant<(IsArrays<T>::value && ...)> {};
template <class A, class B>
struct IsArrays<std::pair<A, B>> : std::bool_constant<IsArrays<A>::value && IsArrays<B>::value> {};
template <>
struct IsArrays<Sample> : std::true_type {};

inline Literal literal_of(Literal value) { return value; }
inline Literal literal_of(const Tensor& value) { return value.literal(); }

// Any of the forms above as a Sample.
template <class T>
Sample sample_of(T&& value) {
  using V = std::remove_cvref_t<T>;
  if constexpr (std::same_as<V, Sample>)
    return std::forward<T>(value);
  else if constexpr (std::same_as<V, Literal> || std::same_as<V, Tensor>)
    return {literal_of(std::forward<T>(value))};
  else
    return std::apply([](const auto&... part) { return Sample{literal_of(part)...}; },
                      std::forward<T>(value));
}

}  // namespace detail

// Tensors are the columns of arrays(), not sets of samples. Whether it can be moved is asked last: that of a
// class which a Source can be made into would ask back.
template <class D>
concept Dataset = !std::derived_from<D, Source> && !std::same_as<D, Sample> && !std::same_as<D, Tensor> &&
                  !std::same_as<D, std::vector<Tensor>> && requires(const D& set, std::int64_t i) {
                    { set.size() } -> std::convertible_to<std::int64_t>;
                    requires detail::IsArrays<std::remove_cvref_t<decltype(set[i])>>::value;
                  } && std::move_constructible<D>;

// What a Source refers to. A Dataset needs none of this; a kind of data that can do more than give one sample
// after the other derives from it.
class SYSTOLE_API Rows {
 public:
  virtual ~Rows();
  virtual std::int64_t size() const = 0;
  virtual Sample get(std::int64_t i) const = 0;  // 0 <= i < size()
  virtual Info info() const;                     // of the first sample, when not said otherwise
  // Many samples, each array with a new leading axis.
  virtual std::vector<Literal> read(std::span<const std::int64_t> indices) const;
  virtual bool in_memory() const { return false; }        // whether columns() only hands out what is there
  virtual std::vector<Literal> columns() const;           // all samples as one batch
  virtual std::int64_t period() const { return size(); }  // how many differ: of an endless repetition
  // The number of sample i in the set that this one is a part of, which messages name.
  virtual std::int64_t origin(std::int64_t i) const { return i; }
  // A field of whole numbers, where it is known without reading the samples.
  virtual std::optional<std::vector<std::int64_t>> known_labels(std::size_t field) const;
};

namespace detail {

template <class D>
class DatasetRows final : public Rows {
 public:
  explicit DatasetRows(D set) : set_(std::move(set)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(set_.size()); }
  Sample get(std::int64_t i) const override { return sample_of(set_[i]); }
  Info info() const override {
    if constexpr (requires { Info(set_.info()); })
      return set_.info();
    else
      return Rows::info();
  }

 private:
  D set_;
};

}  // namespace detail

class SYSTOLE_API Source {
 public:
  Source() = default;  // none
  template <Dataset D>
  Source(D set) : rows_(std::make_shared<const detail::DatasetRows<D>>(std::move(set))) {}
  explicit Source(std::shared_ptr<const Rows> rows) : rows_(std::move(rows)) {}

  bool empty() const { return size() == 0; }  // also when there is none
  std::int64_t size() const { return rows_ ? rows_->size() : 0; }
  bool endless() const { return size() == kEndless; }
  std::int64_t period() const { return rows_ ? rows_->period() : 0; }
  Info info() const;

  Sample operator[](std::int64_t i) const;  // throws kInvalidArgument when there is no such sample
  // A batch: the samples of these indices, each array with a new leading axis. Arrays in memory are copied by
  // several threads; samples of different shapes throw kShape. Every error names its sample, by the index it
  // has in the set that was read.
  std::vector<Literal> read(std::span<const std::int64_t> indices) const;
  std::vector<Literal> read(std::initializer_list<std::int64_t> indices) const {
    return read(std::span(indices.begin(), indices.size()));
  }

  // Whether columns() costs nothing: every array of all samples lies in memory as one.
  bool in_memory() const { return rows_ && rows_->in_memory(); }
  std::vector<Literal> columns() const;  // all samples as one batch, read if need be
  // A field of whole numbers, of all samples.
  std::vector<std::int64_t> labels(std::size_t field = kLastField) const;

  Source take(std::int64_t count) const;  // the first ones, all when there are fewer
  Source skip(std::int64_t count) const;  // the others
  Source select(std::vector<std::int64_t> indices) const;
  Source repeat(std::int64_t times = kEndless) const;
  Source concat(const Source& other) const;
  Source cache() const;                                    // each sample is read once and kept
  Source map(std::function<Sample(Sample)> change) const;  // by whoever reads, each time
  Source map(const Transforms& transforms, std::uint64_t seed = 0) const;
  Source named(std::string name, std::vector<std::string> fields = {}, std::vector<std::string> classes = {})
      const;  // with another description; classes: of the last

  // Parts of these shares, which add up to 1 or less. Without a seed, in order; with one, of
  // permutation(size, seed). Sizes are rounded so that shares that add up to 1 leave nothing over.
  std::vector<Source> split(std::initializer_list<double> shares,
                            std::optional<std::uint64_t> seed = {}) const;
  std::vector<Source> split(std::span<const double> shares, std::optional<std::uint64_t> seed = {}) const;
  std::pair<Source, Source> split(double first, std::optional<std::uint64_t> seed = {}) const;
  // The same with every class of a label shared out alike.
  std::vector<Source> stratified_split(std::initializer_list<double> shares, std::uint64_t seed,
                                       std::size_t field = kLastField) const;
  std::pair<Source, Source> stratified_split(double first, std::uint64_t seed,
                                             std::size_t field = kLastField) const;

  const std::shared_ptr<const Rows>& rows() const { return rows_; }

 private:
  std::shared_ptr<const Rows> rows_;
};

// Samples that are the rows of arrays in memory: of one leading axis, else kShape. Nothing is copied.
SYSTOLE_API Source arrays(std::vector<Literal> columns);
template <class... A>
  requires((std::same_as<A, Literal> || std::same_as<A, Tensor>) && ...)
Source arrays(const A&... columns) {
  return arrays(std::vector<Literal>{detail::literal_of(columns)...});
}

// The order of an epoch: 0 … count-1 shuffled by Fisher and Yates. Place i, from the last down to 1, changes
// with place ⌊w·(i+1)/2^64⌋, where w is the next word of splitmix64; its state starts as the word that
// splitmix64 makes of seed, plus epoch. The same on every machine.
SYSTOLE_API std::vector<std::int64_t> permutation(std::int64_t count, std::uint64_t seed,
                                                  std::int64_t epoch = 0);

}  // namespace systole::data
