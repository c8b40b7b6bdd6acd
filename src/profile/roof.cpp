#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>

#include "base/last_cache.h"
#include "base/log.h"
#include "systole/base/error.h"
#include "systole/profile.h"
#include "systole/tensor.h"

namespace systole {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Seconds of a call, the best of several rounds. `wait` returns when the last result is there. On a
// processor, which other programs have meanwhile, one of many short rounds is without them; to a GPU a wait
// is long.
template <class Call, class Wait>
double seconds_of(const Call& call, const Wait& wait) {
  const bool is_shared = current_device().backend != "cuda";
  const double least = is_shared ? 0.01 : 0.05;
  const int rounds = is_shared ? 25 : 5;
  call();
  wait();
  int calls = 1;
  double best = HUGE_VAL;
  for (int round = 0; round < rounds;) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    wait();
    const double seconds = since(begin);
    if (seconds < least && round == 0 && calls < 1 << 16) {
      calls *= 2;
      continue;
    }
    best = std::min(best, seconds / calls);
    ++round;
  }
  return best;
}

// A value is made when one of its elements can be read.
auto make_waiter() {
  return [first = compile([](const Tensor& x) { return flatten(x)[0]; })](const Tensor& x) {
    first(x).literal();
  };
}

// The faster of a copy in place and one to other memory, which a processor reads before it writes.
double copy_rate(std::int64_t elements) {
  const auto wait = make_waiter();
  const Variable x(full({elements}, 1.5).eval(), "x");
  const auto negate = compile([](const Tensor& from) { return -from; });
  const auto turn = compile([x] {
    Variable cell = x;
    cell.assign(-x);
  });
  Tensor y;
  const double fresh = seconds_of([&] { y = negate(x); }, [&] { wait(y); });
  const double in_place = seconds_of([&] { turn(); }, [&] { wait(x); });
  return 2 * 4 * static_cast<double>(elements) / std::min(fresh, in_place);
}

double product_rate(std::int64_t side, DType dtype, bool tf32) {
  const auto multiply = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); },
                                {.math = tf32 ? runtime::Math::tf32 : runtime::Math::f32});
  const auto wait = make_waiter();
  const Tensor a = full({side, side}, 0.5).to(dtype).eval();
  Tensor y;
  const double seconds = seconds_of([&] { y = multiply(a, a); }, [&] { wait(y); });
  return 2 * std::pow(static_cast<double>(side), 3) / seconds;
}

// Of matrices ever larger, as long as one more does not take too long.
double best_product_rate(const std::string& backend, DType dtype, bool tf32) {
  constexpr double kLong = 0.06;  // seconds of a product; the next takes eight times as long
  const std::int64_t side = backend == "reference" ? 32 : backend == "cuda" ? 8192 : 2048;
  double best = 0;
  for (const std::int64_t part : {4, 2, 1}) {
    const double size = static_cast<double>(side / part), rate = product_rate(side / part, dtype, tf32);
    best = std::max(best, rate);
    if (2 * std::pow(size, 3) / rate > kLong) break;
  }
  return best;
}

Roof measured(const std::string& device) {
  const DeviceScope scope(device);
  const std::string backend = current_device().backend;
  const bool is_slow = backend == "reference", is_fast = backend == "cuda";
  // Four times what the last cache holds, which no copy of a processor shall come from.
  const std::int64_t beyond = std::clamp(last_cache_bytes(), std::int64_t{1} << 25, std::int64_t{1} << 27);
  const std::int64_t elements = is_slow ? 1 << 14 : is_fast ? 1 << 28 : beyond;
  Roof roof{.device = device};
  roof.bytes_per_second = copy_rate(elements);
  if (is_fast) roof.bytes_per_second = std::max(roof.bytes_per_second, copy_rate(elements / 4));
  const auto add = [&](DType dtype, bool tf32) {
    roof.products.push_back({dtype, tf32, best_product_rate(backend, dtype, tf32)});
  };
  add(DType::f32, false);
  if (is_fast) {  // elsewhere there are no units for these
    add(DType::f32, true);
    add(DType::bf16, false);
    add(DType::f16, false);
  }
  return roof;
}

}  // namespace

double Roof::flops_per_second(DType dtype, bool tf32) const {
  double rate = 0;
  for (const Product& product : products) {
    const bool is_it = product.dtype == dtype && product.tf32 == (tf32 && dtype == DType::f32);
    if (is_it) return product.flops_per_second;
    if (product.dtype == DType::f32 && !product.tf32) rate = product.flops_per_second;
  }
  return rate;
}

double Roof::least_seconds(double bytes, double flops, DType dtype, bool tf32) const {
  const double peak = flops_per_second(dtype, tf32);
  double least = 0;
  if (bytes_per_second > 0) least = bytes / bytes_per_second;
  if (peak > 0) least = std::max(least, flops / peak);
  return least;
}

Roof Roof::measure(const std::string& device, bool f64) {
  static std::mutex mutex;
  static std::map<std::string, Roof> known;
  const std::lock_guard lock(mutex);
  if (!known.contains(device)) known[device] = measured(device);
  Roof& roof = known[device];
  const auto is_f64 = [](const Product& product) { return product.dtype == DType::f64; };
  if (f64 && std::none_of(roof.products.begin(), roof.products.end(), is_f64)) {
    const DeviceScope scope(device);
    roof.products.push_back(
        {DType::f64, false, best_product_rate(current_device().backend, DType::f64, false)});
  }
  return roof;
}

}  // namespace systole
