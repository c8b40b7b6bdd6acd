#pragma once

// cublasLt without a GPU: it computes on the host's memory what NVIDIA's documentation says of a description,
// in columns first, and remembers what it was asked for.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "backend/cuda/blas_api.h"

namespace systole::cuda::lt {

struct DescriptionObject {
  int compute = 0;
  std::map<int, std::int64_t> attributes;
  std::int64_t get(int attribute, std::int64_t unset) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? unset : found->second;
  }
};
struct LayoutObject {
  int type = 0;
  std::int64_t rows = 0, columns = 0, stride = 0, batches = 1, batch_stride = 0;
};
struct PreferenceObject {
  std::map<int, std::int64_t> attributes;
};

class FakeBlas {
 public:
  FakeBlas() {
    only() = this;
    set_api(&table_);
  }
  ~FakeBlas() {
    set_api(nullptr);
    only() = nullptr;
  }
  FakeBlas(const FakeBlas&) = delete;
  FakeBlas& operator=(const FakeBlas&) = delete;

  int proposals = 3;
  int refused_epilogue = 0;                        // what it has no algorithm for
  std::vector<std::uint64_t> algorithms;           // of the products that were computed
  std::map<int, std::int64_t> preferences;         // of the last question
  std::map<int, std::int64_t> attributes_of_last;  // product that was asked about
  int compute_of_last = 0;

 private:
  static FakeBlas*& only() {
    static FakeBlas* fake = nullptr;
    return fake;
  }
  static std::int64_t number(const void* value, std::size_t bytes) {
    std::int64_t out = 0;
    std::memcpy(&out, value, bytes);
    return bytes == 4 ? static_cast<std::int32_t>(out) : out;
  }

  static double get(const void* array, std::int64_t i, int type) {
    switch (type) {
      case kTypeF32: return static_cast<const float*>(array)[i];
      case kTypeF64: return static_cast<const double*>(array)[i];
      case kTypeF16: return static_cast<double>(static_cast<const f16*>(array)[i]);
      case kTypeBf16: return static_cast<double>(static_cast<const bf16*>(array)[i]);
      default: throw std::logic_error("type");
    }
  }
  static void put(void* array, std::int64_t i, int type, double value) {
    switch (type) {
      case kTypeF32: static_cast<float*>(array)[i] = static_cast<float>(value); break;
      case kTypeF64: static_cast<double*>(array)[i] = value; break;
      case kTypeF16: static_cast<f16*>(array)[i] = static_cast<f16>(static_cast<float>(value)); break;
      case kTypeBf16: static_cast<bf16*>(array)[i] = static_cast<bf16>(static_cast<float>(value)); break;
      default: throw std::logic_error("type");
    }
  }

  static int multiply(Handle, Description what, const void* alpha, const void* a, Layout a_layout,
                      const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout,
                      void* d, Layout d_layout, const Algorithm* algorithm, void*, std::size_t, Stream) {
    only()->algorithms.push_back(algorithm->data[0]);
    const bool is_double = what->compute == kCompute64F;
    const double scale = is_double ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
    const double kept = is_double ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
    const bool turns_a = what->get(kTransposeA, 0) != 0, turns_b = what->get(kTransposeB, 0) != 0;
    const auto epilogue = static_cast<int>(what->get(kEpilogue, kNothingOnResult));
    const std::int64_t depth = turns_a ? a_layout->rows : a_layout->columns;
    if ((turns_b ? b_layout->columns : b_layout->rows) != depth) return 7;
    const auto factor = [](const void* array, const LayoutObject& m, bool turns, std::int64_t row,
                           std::int64_t column, std::int64_t batch) {
      if (turns) std::swap(row, column);
      if (row >= m.rows || column >= m.columns || m.stride < m.rows) throw std::logic_error("outside");
      return get(array, batch * m.batch_stride + column * m.stride + row, m.type);
    };
    void* const vector = reinterpret_cast<void*>(what->get(kBiasPointer, 0));
    const auto vector_type = static_cast<int>(what->get(kBiasType, d_layout->type));
    void* const aux = reinterpret_cast<void*>(what->get(kAuxPointer, 0));
    const auto aux_type = static_cast<int>(what->get(kAuxType, d_layout->type));
    std::vector<double> sums_of_rows(static_cast<std::size_t>(d_layout->rows), 0);
    for (std::int64_t batch = 0; batch < d_layout->batches; ++batch)
      for (std::int64_t column = 0; column < d_layout->columns; ++column)
        for (std::int64_t row = 0; row < d_layout->rows; ++row) {
          double sum = 0;
          for (std::int64_t k = 0; k < depth; ++k)
            sum += factor(a, *a_layout, turns_a, row, k, batch) *
                   factor(b, *b_layout, turns_b, k, column, batch);
          sum *= scale;
          if (kept != 0) sum += kept * factor(c, *c_layout, false, row, column, batch);
          const std::int64_t aux_place =
              batch * what->get(kAuxBatchStride, 0) + column * what->get(kAuxStride, 0) + row;
          if ((epilogue & kBias) != 0) sum += get(vector, row, vector_type);
          if ((epilogue & kRelu) != 0) sum = std::max(sum, 0.0);
          if ((epilogue & kGelu) != 0) {
            if ((epilogue & kAux) != 0) put(aux, aux_place, aux_type, sum);
            sum = sum / 2 * (1 + std::tanh(inner(sum)));
          }
          if ((epilogue & kGeluGradient) == kGeluGradient) {
            const double x = get(aux, aux_place, aux_type), t = std::tanh(inner(x));
            sum *= (1 + t) / 2 +
                   x / 2 * (1 - t * t) * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
          }
          put(d, batch * d_layout->batch_stride + column * d_layout->stride + row, d_layout->type, sum);
          sums_of_rows[static_cast<std::size_t>(row)] += sum;
        }
    if ((epilogue & kBiasGradient) != 0)
      for (std::int64_t row = 0; row < d_layout->rows; ++row)
        put(vector, row, vector_type, sums_of_rows[static_cast<std::size_t>(row)]);
    if ((epilogue & (kSumOfA | kSumOfB)) != 0) {
      const bool of_a = (epilogue & kSumOfA) != 0;
      for (std::int64_t i = 0; i < (of_a ? d_layout->rows : d_layout->columns); ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += of_a ? factor(a, *a_layout, turns_a, i, k, 0) : factor(b, *b_layout, turns_b, k, i, 0);
        put(vector, i, vector_type, sum);
      }
    }
    return 0;
  }
  static double inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

  static int heuristic(Handle, Description what, Layout, Layout, Layout, Layout, Preference preference,
                       int most, Heuristic* results, int* count) {
    FakeBlas& fake = *only();
    fake.preferences = preference->attributes;
    fake.attributes_of_last = what->attributes;
    fake.compute_of_last = what->compute;
    constexpr int kNotSupported = 15;
    if (fake.refused_epilogue != 0 && what->get(kEpilogue, kNothingOnResult) == fake.refused_epilogue)
      return kNotSupported;
    *count = std::min(most, fake.proposals);
    for (int i = 0; i < *count; ++i) {
      results[i] = {};
      results[i].algorithm.data[0] = static_cast<std::uint64_t>(i);
      results[i].workspace = static_cast<std::size_t>(1000 * (i + 1));
    }
    return 0;
  }

  // Objects are as in the library: made and freed one by one.
  const Api table_{
      .create =
          [](Handle* handle) {
            *handle = nullptr;
            return 0;
          },
      .version = [] { return std::size_t{130000}; },
      .words = [](int) { return "said by the fake"; },
      .new_description =
          [](Description* made, int compute, int) {
            *made = std::make_unique<DescriptionObject>().release();
            (*made)->compute = compute;
            return 0;
          },
      .set_description =
          [](Description description, int attribute, const void* value, std::size_t bytes) {
            description->attributes[attribute] = number(value, bytes);
            return 0;
          },
      .free_description =
          [](Description description) {
            const std::unique_ptr<DescriptionObject> gone(description);
            return 0;
          },
      .new_layout =
          [](Layout* made, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
            *made = std::make_unique<LayoutObject>().release();
            **made = {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), stride};
            return 0;
          },
      .set_layout =
          [](Layout layout, int attribute, const void* value, std::size_t bytes) {
            (attribute == kBatchCount ? layout->batches : layout->batch_stride) = number(value, bytes);
            return 0;
          },
      .free_layout =
          [](Layout layout) {
            const std::unique_ptr<LayoutObject> gone(layout);
            return 0;
          },
      .new_preference =
          [](Preference* made) {
            *made = std::make_unique<PreferenceObject>().release();
            return 0;
          },
      .set_preference =
          [](Preference preference, int attribute, const void* value, std::size_t bytes) {
            preference->attributes[attribute] = number(value, bytes);
            return 0;
          },
      .free_preference =
          [](Preference preference) {
            const std::unique_ptr<PreferenceObject> gone(preference);
            return 0;
          },
      .heuristic = heuristic,
      .multiply = multiply,
  };
};

}  // namespace systole::cuda::lt
