#include "cli/bench/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/bench/measurement.h"

namespace systole::cli::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kParts[] = {4, 2, 1};  // of the largest

double copied_gb_s(std::int64_t elements, Copy form, const Effort& effort) {
  const double seconds = measure(prepare_copy(elements, form).run, effort).seconds;
  return 2 * static_cast<double>(elements) * sizeof(float) / seconds / 1e9;
}

double seconds_of(const Workload& work, const Effort& effort) {
  return measure(prepare_kernel(work).run, effort).seconds;
}

// 67108864 is 64 Mi.
std::string count_text(std::int64_t count) {
  const char* unit = "";
  double scaled = static_cast<double>(count);
  for (const char* next : {" Ki", " Mi", " Gi"})
    if (scaled >= 1024) {
      scaled /= 1024;
      unit = next;
    }
  return fmt::format("{:.4g}{}", scaled, unit);
}

}  // namespace

double Roofline::gb_s() const {
  double best = 0;
  for (const Copied& copy : copies) best = std::max({best, copy.in_place_gb_s, copy.fresh_gb_s});
  return best;
}

double Roofline::tflop_s() const {
  double best = 0;
  for (const Multiplied& product : products) best = std::max(best, product.tflop_s);
  return best;
}

double Roofline::ridge() const { return tflop_s() * 1e3 / gb_s(); }

double Roofline::least_seconds(const Cost& cost) const {
  return std::max(cost.bytes / (gb_s() * 1e9), cost.operations / (tflop_s() * 1e12));
}

std::int64_t elements_beyond(std::int64_t last_cache) {
  constexpr std::int64_t kFewest = std::int64_t{1} << 26, kMost = std::int64_t{1} << 28;
  const std::int64_t wanted = 4 * kParts[0] * last_cache / static_cast<std::int64_t>(sizeof(float));
  std::int64_t elements = kFewest;
  while (elements < std::min(wanted, kMost)) elements *= 2;
  return elements;
}

Workload resized(Workload kernel, std::int64_t elements) {
  const double side = std::floor(std::sqrt(static_cast<double>(elements)));
  kernel.batch = is_square(kernel) ? static_cast<std::int64_t>(side) : elements;
  return kernel;
}

Roofline measure_roofline(std::int64_t elements, const Workload& product,
                          const std::vector<Workload>& kernels, const Effort& effort) {
  Roofline roof;
  roof.dtype = product.dtype;
  for (const std::int64_t part : kParts) {
    const std::int64_t count = std::max<std::int64_t>(1, elements / part);
    roof.copies.push_back(
        {count, copied_gb_s(count, Copy::in_place, effort), copied_gb_s(count, Copy::fresh, effort)});
  }
  double product_s = 0;  // of the largest
  for (const std::int64_t part : kParts) {
    Workload smaller = product;
    smaller.batch = std::max<std::int64_t>(1, product.batch / part);
    product_s = seconds_of(smaller, effort);
    roof.products.push_back({smaller.batch, cost(smaller).operations / product_s / 1e12});
  }
  for (const Workload& work : kernels)
    roof.kernels.push_back(
        {work, cost(work), work.model == product.model ? product_s : seconds_of(work, effort)});
  return roof;
}

Json to_json(const Roofline& roof) {
  Json copies = Json::array(), products = Json::array(), kernels = Json::array();
  for (const Roofline::Copied& copy : roof.copies)
    copies.push_back({{"floats", copy.elements},
                      {"in_place_GB/s", rounded(copy.in_place_gb_s, 4)},
                      {"fresh_GB/s", rounded(copy.fresh_gb_s, 4)}});
  for (const Roofline::Multiplied& product : roof.products)
    products.push_back({{"side", product.side}, {"TFLOP/s", rounded(product.tflop_s, 4)}});
  for (const Roofline::Placed& placed : roof.kernels)
    kernels.push_back({{"workload", placed.work.name},
                       {"model", placed.work.model},
                       {"dtype", placed.work.dtype},
                       {"batch", placed.work.batch},
                       {"ms", rounded(placed.seconds * 1e3, 5)},
                       {"GB/s", rounded(placed.least.bytes / placed.seconds / 1e9, 4)},
                       {"TFLOP/s", rounded(placed.least.operations / placed.seconds / 1e12, 4)},
                       {"FLOP/byte", rounded(placed.least.intensity(), 4)},
                       {"bound", roof.memory_bound(placed.least) ? "memory" : "arithmetic"},
                       {"share_of_roof", rounded(roof.share(placed), 4)}});
  return {{"copies", std::move(copies)},
          {"products", std::move(products)},
          {"dtype", roof.dtype},
          {"GB/s", rounded(roof.gb_s(), 4)},
          {"TFLOP/s", rounded(roof.tflop_s(), 4)},
          {"ridge_FLOP/byte", rounded(roof.ridge(), 4)},
          {"kernels", std::move(kernels)}};
}

std::string to_text(const Roofline& roof) {
  std::string text = "read + write of f32       in place   to new memory\n";
  for (const Roofline::Copied& copy : roof.copies)
    text += fmt::format("  {:<18}  {:>7.4g} GB/s  {:>9.4g} GB/s\n", count_text(copy.elements),
                        copy.in_place_gb_s, copy.fresh_gb_s);
  text += fmt::format("product of {} matrices\n", roof.dtype);
  for (const Roofline::Multiplied& product : roof.products)
    text += fmt::format("  {:<18}  {:>7.4g} TFLOP/s\n", product.side, product.tflop_s);
  text += fmt::format("roof: {:.4g} GB/s, {:.4g} TFLOP/s; the ridge is at {:.4g} FLOP/byte\n", roof.gb_s(),
                      roof.tflop_s(), roof.ridge());
  if (roof.kernels.empty()) return text;
  text += "\nkernel           elements  FLOP/byte  bound by       GB/s   TFLOP/s  share of the roof\n";
  for (const Roofline::Placed& placed : roof.kernels) {
    const std::string size =
        is_square(placed.work) ? fmt::format("{}²", placed.work.batch) : count_text(placed.work.batch);
    text += fmt::format("{:<3} {:<11}  {:>8}  {:>9.4g}  {:<10}  {:>7.4g}  {:>8.3g}  {:>15.1f} %\n",
                        placed.work.name, placed.work.model, size, placed.least.intensity(),
                        roof.memory_bound(placed.least) ? "memory" : "arithmetic",
                        placed.least.bytes / placed.seconds / 1e9,
                        placed.least.operations / placed.seconds / 1e12, 100 * roof.share(placed));
  }
  return text;
}

}  // namespace systole::cli::bench
