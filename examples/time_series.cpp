// The next day of an hourly series from the two weeks before it, by a GRU, against the naive forecast that
// every hour will be as it was a week ago.
//
//   time_series [--data FILE] [--epochs 30] [--device auto] [--out forecast.svg]
//
// FILE is a CSV with the series as its last column, an hour a line. Without one, it is a demand with the
// rhythm of day and week, a trend, weather that lasts for some days, and noise.

#include <systole/systole.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numbers>
#include <random>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr std::int64_t kDay = 24, kWeek = 7 * kDay, kPast = 2 * kWeek;

std::vector<float> made_up(int days) {
  std::mt19937 chance(1);
  std::normal_distribution<double> normal;
  std::vector<float> series;
  double weather = 0;
  for (int hour = 0; hour < days * kDay; ++hour) {
    weather = 0.99 * weather + std::sqrt(1 - 0.99 * 0.99) * normal(chance);
    const double turn = 2 * std::numbers::pi * hour / kDay;
    const double day = std::sin(turn - 2) + 0.4 * std::sin(2 * turn),
                 weekend = hour / kDay % 7 >= 5 ? -1.2 : 0;
    series.push_back(
        static_cast<float>(50 + 0.002 * hour + 8 * day + 5 * weekend + 4 * weather + normal(chance)));
  }
  return series;
}

// Day after day: what was before it, what is in it.
data::Source windows(const std::vector<float>& series) {
  std::vector<float> past, future;
  const std::int64_t days = (std::ssize(series) - kPast) / kDay;
  if (days < 10)
    throw Error(ErrorKind::kInvalidArgument, "the series", "too short",
                "two weeks and ten days, an hour a value");
  for (auto at = series.begin() + kPast; series.end() - at >= kDay; at += kDay) {
    past.insert(past.end(), at - kPast, at);
    future.insert(future.end(), at, at + kDay);
  }
  return data::arrays(tensor(past, {days, kPast}), tensor(future, {days, kDay}));
}

Tensor week_ago(const Tensor& past) { return past[{all, slice(kPast - kWeek, kPast - kWeek + kDay)}]; }

// Reads the past a day per step and says how the next day differs from the one a week before it, in units of
// what the past varies by.
struct Forecaster {
  nn::GRU gru{kDay, 64, {.batch_first = true}};
  nn::Linear head{64, kDay};

  Tensor forward(const Tensor& past) const {
    const Tensor level = mean(past, 1, true), spread = stddev(past, 1, {.keep = true});
    const Tensor days = ((past - level) / spread).reshape({-1, kPast / kDay, kDay});
    return week_ago(past) + head(gru(days).h[0]) * spread;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"data", ""}, {"epochs", "30"}, {"days", "1500"}, {"device", "auto"}, {"out", ""}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const std::vector<float> series =
      options.has("data")
          ? Tensor(data::read_csv(options["data"]).columns.back().values).to(DType::f32).to_vector<float>()
          : made_up(static_cast<int>(options.integer("days")));
  const data::Source days = windows(series);
  auto [train, test] = days.split(0.8);  // in order: the future is the test

  Forecaster model;
  training::Trainer trainer(model, optim::Adam(model, {.lr = 2e-3}), {.loss = "mse", .metrics = {"mae"}});
  trainer.fit(train, {.epochs = options.integer("epochs"), .batch = 32, .validation = test, .verbose = 2});

  const std::vector<Literal> columns = test.columns();
  const Tensor past(columns[0]), future(columns[1]), forecast = trainer.predict(past);
  const double ours = metrics::mae(forecast, future), naive = metrics::mae(week_ago(past), future);
  std::printf("mean absolute error %.3f, of the naive forecast %.3f: %.0f %% less\n", ours, naive,
              100 * (1 - ours / naive));
  if (options.has("out")) {
    const auto line = [](const Tensor& x) {
      return x[slice(-7, {})].flatten().to(DType::f64).to_vector<double>();
    };
    training::chart({{.name = "series", .y = line(future)}, {.name = "forecast", .y = line(forecast)}},
                    {.title = "The last week, day by day", .x_label = "hour"})
        .save(options["out"]);
  }
} catch (const std::exception& error) {
  std::cerr << "time_series: " << error.what() << "\n";
  return 1;
}
