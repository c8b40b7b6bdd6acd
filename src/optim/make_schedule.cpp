#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.h"
#include "optim/common.h"
#include "optim/read_options.h"
#include "systole/optim/schedule.h"

namespace systole::optim {

namespace {

class Reader {
 public:
  Reader(std::string_view where, const Options& options) : where_(where), options_(&options) {}

  double number(std::string_view name, double otherwise) const {
    const Option* option = find(name);
    return option != nullptr ? as_number(where_, *option) : otherwise;
  }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const {
    const Option* option = find(name);
    return option != nullptr ? as_integer(where_, *option) : otherwise;
  }
  bool flag(std::string_view name, bool otherwise) const {
    const Option* option = find(name);
    return option != nullptr ? as_flag(where_, *option) : otherwise;
  }
  const Option& needed(std::string_view name) const {
    if (const Option* option = find(name)) return *option;
    refuse(where_, fmt::format("the schedule needs \"{}\"", name), "a value for it", "none");
  }
  double number(std::string_view name) const { return as_number(where_, needed(name)); }
  std::int64_t integer(std::string_view name) const { return as_integer(where_, needed(name)); }
  std::vector<std::int64_t> integers(std::string_view name) const {
    return as_integers(where_, needed(name));
  }

 private:
  const Option* find(std::string_view name) const {
    const auto found =
        std::find_if(options_->begin(), options_->end(), [&](const Option& o) { return o.name == name; });
    return found != options_->end() ? &*found : nullptr;
  }
  std::string_view where_;
  const Options* options_;
};

struct Row {
  std::string_view name;
  std::vector<std::string_view> options;
  Schedule (*make)(double lr, const Reader& r);
};

const std::vector<Row>& rows() {
  using namespace schedules;
  static const std::vector<Row> all{
      {"constant", {}, [](double lr, const Reader&) { return constant(lr); }},
      {"step",
       {"size", "gamma"},
       [](double lr, const Reader& r) { return step(lr, r.integer("size"), r.number("gamma", 0.1)); }},
      {"multi_step",
       {"milestones", "gamma"},
       [](double lr, const Reader& r) {
         return multi_step(lr, r.integers("milestones"), r.number("gamma", 0.1));
       }},
      {"exponential",
       {"gamma"},
       [](double lr, const Reader& r) { return exponential(lr, r.number("gamma")); }},
      {"cosine",
       {"steps", "min"},
       [](double lr, const Reader& r) { return cosine(lr, r.integer("steps"), r.number("min", 0)); }},
      {"cosine_restarts",
       {"steps", "multiplier", "min"},
       [](double lr, const Reader& r) {
         return cosine_restarts(lr, r.integer("steps"), r.integer("multiplier", 1), r.number("min", 0));
       }},
      {"polynomial",
       {"steps", "power", "end"},
       [](double lr, const Reader& r) {
         return polynomial(lr, r.integer("steps"), r.number("power", 1), r.number("end", 0));
       }},
      {"linear",
       {"steps", "end"},
       [](double lr, const Reader& r) { return linear(lr, r.integer("steps"), r.number("end", 0)); }},
      {"one_cycle",
       {"steps", "peak", "div", "final_div", "straight", "three_phase"},
       [](double lr, const Reader& r) {
         const OneCycleOptions o;
         return one_cycle(lr, r.integer("steps"),
                          {.peak = r.number("peak", o.peak),
                           .div = r.number("div", o.div),
                           .final_div = r.number("final_div", o.final_div),
                           .straight = r.flag("straight", o.straight),
                           .three_phase = r.flag("three_phase", o.three_phase)});
       }},
  };
  return all;
}

}  // namespace

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const Row& row : rows()) names.push_back(row.name);
  return names;
}

Schedule make_schedule(std::string_view name, double lr, const Options& options) {
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == name; });
  if (row == rows().end()) throw unknown_name({}, "schedule", name, schedule_names());
  std::vector<std::string_view> known = row->options;
  known.insert(known.end(), {"every", "warmup", "warmup_start"});
  check_names(name, options, known);
  const Reader reader(name, options);
  const Schedule schedule = row->make(lr, reader).every(reader.integer("every", 1));
  return schedule.after_warmup(reader.integer("warmup", 0), reader.number("warmup_start", 0));
}

}  // namespace systole::optim
