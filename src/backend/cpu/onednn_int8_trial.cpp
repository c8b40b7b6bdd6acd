#include "backend/cpu/onednn_int8_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cpu/memory.h"
#include "backend/cpu/onednn_contraction.h"

namespace systole::cpu {

using namespace patterns;
using dnnl::api;

namespace {

// Sums of all points by the library, of bytes of the largest size, so that none is a round number.
struct Trial {
  std::shared_ptr<std::byte> a, b, sums;
  bool is_unsigned = false;
  std::int32_t left(std::int64_t i) const {
    return is_unsigned ? static_cast<std::uint8_t>(a.get()[i]) : static_cast<std::int8_t>(a.get()[i]);
  }
  std::int32_t right(std::int64_t i) const { return static_cast<std::int8_t>(b.get()[i]); }
  std::int32_t sum(std::int64_t i) const { return reinterpret_cast<const std::int32_t*>(sums.get())[i]; }

  Trial(const Contraction& c, DType first) : is_unsigned(first == DType::u8) {
    const std::size_t a_bytes = api().memory_desc_get_size(c.a.get()),
                      b_bytes = api().memory_desc_get_size(c.b.get());
    a = allocate(static_cast<std::int64_t>(a_bytes));
    b = allocate(static_cast<std::int64_t>(b_bytes));
    sums = allocate(c.count * 4);
    std::uint32_t random = 1;
    const auto next = [&] { return (random = random * 1664525u + 1013904223u) >> 28; };
    for (std::size_t i = 0; i < a_bytes; ++i)
      a.get()[i] = static_cast<std::byte>((is_unsigned ? 255 : 127) - next());
    for (std::size_t i = 0; i < b_bytes; ++i)
      b.get()[i] = static_cast<std::byte>(-128 + static_cast<int>(next()));
    const std::shared_ptr<const Plan> plan = plan_of(c, {});
    const std::shared_ptr<std::byte> workspace = allocate(plan->workspace());
    std::byte* const inputs[] = {a.get(), b.get()};
    std::byte* const outputs[] = {sums.get()};
    const unsigned char same[] = {0, 0};
    plan->new_run()->run({inputs, outputs, workspace.get(), same});
  }
};

constexpr std::int64_t kTriedRows = 64, kTriedPoints = 61;

bool try_out(Product p, DType first) {
  p.outer = p.batch = 1;
  p.rows = std::min(p.rows, kTriedRows);
  p.depth *= 2;
  const auto lie = [&](Matrix& matrix, std::size_t i, std::int64_t free) {
    const bool is_across = matrix.contract_stride == 1;
    matrix = {i, 0, is_across ? p.depth : 1, is_across ? 1 : free, 0, 0};
  };
  lie(p.a, 0, p.rows);
  lie(p.b, 1, p.columns);
  const Trial trial(contraction_of(p, first), first);
  const std::int64_t count = p.rows * p.columns;
  for (std::int64_t i = 0; i < std::min(count, kTriedPoints); ++i) {
    const std::int64_t point = i * (count / std::min(count, kTriedPoints)), m = point / p.columns,
                       n = point % p.columns;
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < p.depth; ++k)
      sum += trial.left(m * p.a.free_stride + k * p.a.contract_stride) *
             trial.right(n * p.b.free_stride + k * p.b.contract_stride);
    if (static_cast<std::int32_t>(sum) != trial.sum(point)) return false;
  }
  return true;
}

bool try_out(Convolution c) {
  c.batch = 1;
  c.channels *= 2;
  const std::int64_t in = c.channels / c.groups, out = c.filters / c.groups;
  const Trial trial(contraction_of(c, {c.window[0] * c.window[1] * in, 1, c.window[1] * in, in}, 0, 1),
                    c.operands);
  const std::int64_t count = c.result[0] * c.result[1] * c.filters;
  for (std::int64_t i = 0; i < std::min(count, kTriedPoints); ++i) {
    const std::int64_t point = i * (count / std::min(count, kTriedPoints)), filter = point % c.filters,
                       column = point / c.filters % c.result[1], row = point / c.filters / c.result[1];
    std::int64_t sum = 0;
    for (std::int64_t h = 0; h < c.window[0]; ++h)
      for (std::int64_t v = 0; v < c.window[1]; ++v) {
        const std::int64_t y = row * c.strides[0] - c.before[0] + h * c.dilations[0],
                           x = column * c.strides[1] - c.before[1] + v * c.dilations[1];
        if (y < 0 || y >= c.image[0] || x < 0 || x >= c.image[1]) continue;
        const std::int64_t left = (y * c.image[1] + x) * c.channels + filter / out * in,
                           right = ((filter * c.window[0] + h) * c.window[1] + v) * in;
        for (std::int64_t k = 0; k < in; ++k) sum += trial.left(left + k) * trial.right(right + k);
      }
    if (static_cast<std::int32_t>(sum) != trial.sum(point)) return false;
  }
  return true;
}

// Tried once for each.
bool once(const std::string& key, const std::function<bool()>& try_it) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, bool>;  // never destroyed: threads may outlive main
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(key); found != known->end()) return found->second;
  return known->emplace(key, try_it()).first->second;
}

}  // namespace

bool is_exact(const Product& p, DType first) {
  const std::string key = fmt::format("{} {}x{}x{} {} {}", systole::name(first), std::min(p.rows, kTriedRows),
                                      p.columns, p.depth, p.a.contract_stride == 1, p.b.contract_stride == 1);
  return once(key, [&] { return try_out(p, first); });
}

bool is_exact(const Convolution& c) {
  return once(c.text(), [&] { return try_out(c); });
}

}  // namespace systole::cpu
