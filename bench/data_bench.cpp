// How fast data comes: pictures per second through a Loader, and the order of an epoch. MNIST's sizes, with
// pictures drawn here. Run by `make bench`; numbers are for comparison on one machine, no test reads them.

#include <benchmark/benchmark.h>
#include <systole/systole.h>

#include <numeric>

namespace {

using namespace systole;

constexpr std::int64_t kCount = 60'000;

const data::Source& pictures() {
  static const data::Source made = [] {
    const data::Digits few = data::digits(1000, 1);
    return data::Source(data::arrays(few.images, few.labels)).repeat(kCount / 1000);
  }();
  static const data::Source in_memory = data::arrays(made.columns());
  return in_memory;
}

const data::Transforms kNormalise{data::Normalize{.mean = {0.1307}, .stddev = {0.3081}}};
const data::Transforms kAugment{data::Crop{.padding = 2}, data::Flip{}, data::Rotate{},
                                data::Normalize{.mean = {0.1307}, .stddev = {0.3081}}};

// One epoch a round; arguments: batch, workers (-1: auto).
void load(benchmark::State& state, const data::Transforms& map) {
  data::Loader loader(pictures(),
                      {.batch = state.range(0), .map = map, .workers = static_cast<int>(state.range(1))});
  std::int64_t seen = 0;
  for (auto _ : state)
    for (const data::Batch& batch : loader) {
      benchmark::DoNotOptimize(batch.arrays[0].bytes());
      seen += batch.size();
    }
  state.counters["images/s"] = benchmark::Counter(static_cast<double>(seen), benchmark::Counter::kIsRate);
}

void read_whole_epoch(benchmark::State& state) {
  const std::vector<std::int64_t> order = data::permutation(kCount, 1);
  for (auto _ : state) benchmark::DoNotOptimize(pictures().read(order));
  state.SetBytesProcessed(state.iterations() * kCount * 784);
}

void order(benchmark::State& state) {
  std::int64_t epoch = 0;
  for (auto _ : state) benchmark::DoNotOptimize(data::permutation(kCount, 1, epoch++));
}

}  // namespace

BENCHMARK_CAPTURE(load, as_is, data::Transforms{})
    ->Args({64, -1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, normalised, kNormalise)
    ->Args({64, -1})
    ->Args({64, 0})
    ->Args({256, -1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, augmented, kAugment)->Args({64, -1})->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(read_whole_epoch)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(order)->Unit(benchmark::kMicrosecond);
