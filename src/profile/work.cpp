#include "profile/work.h"

#include <algorithm>
#include <set>
#include <utility>

#include "io/json.h"

namespace systole::profiling {

namespace {

Facts facts_of(std::string text) {
  Facts facts;
  if (text.empty()) return facts;
  io::JsonReader reader(text, "timeline");
  reader.begin_object();
  for (std::string_view key; reader.next_key(key);) {
    const std::string name(key);
    switch (reader.kind()) {
      case io::JsonReader::Kind::string: facts.words[name] = reader.string(); break;
      case io::JsonReader::Kind::number: facts.numbers[name] = reader.integer(); break;
      default: reader.skip();
    }
  }
  return facts;
}

}  // namespace

Reading::Reading(const timeline::Collected& collected)
    : collected_(collected), device_(collected.events.size()), own_(collected.events.size()) {
  std::set<std::uint32_t> distinct;
  for (const Event& event : collected.events) distinct.insert(event.details);
  for (const std::uint32_t d : distinct) facts_.emplace(d, facts_of(collected.texts[d]));
  std::map<std::uint32_t, std::vector<std::size_t>> threads;
  for (std::size_t i = 0; i < collected.events.size(); ++i) {
    const Event& event = collected.events[i];
    own_[i] = event.end - event.begin;
    if (is(event, "gpu"))
      device_[i] = number(text(event.row).substr(0, text(event.row).find(' ')));
    else
      device_[i] = number(facts(event).text("device"));
    if (is_work(event)) threads[event.row].push_back(i);
  }
  for (auto& [thread, events] : threads) nest(events);
}

std::uint32_t Reading::number(const std::string& device) {
  const auto [at, is_new] = numbers_.try_emplace(device, static_cast<std::uint32_t>(names_.size()));
  if (is_new) names_.push_back(device);
  return at->second;
}

// Of a thread's events: a step is of the device of the run it is in. Loops are steps with steps inside. A
// kernel of the program's own that a step launches is that step's work, and counted there.
void Reading::nest(std::vector<std::size_t>& events) {
  const auto at = [&](std::size_t i) -> const Event& { return collected_.events[i]; };
  std::stable_sort(events.begin(), events.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(at(a).begin, -at(a).end) < std::pair(at(b).begin, -at(b).end);
  });
  std::vector<std::size_t> open;
  for (const std::size_t i : events) {
    while (!open.empty() && at(open.back()).end <= at(i).begin) open.pop_back();
    if (!open.empty()) {
      if (is(at(i), "kernel") && is(at(open.back()), "step")) {
        device_[i] = 0;
        continue;
      }
      if (device_[i] == 0) device_[i] = device_[open.back()];
      own_[open.back()] -= at(i).end - at(i).begin;
    }
    open.push_back(i);
  }
}

std::string Reading::kind(const Event& event) const {
  if (!is(event, "gpu") && !is_work(event)) return {};
  const Facts& f = facts(event);
  const std::string work = f.text("work");
  if (work.starts_with("copy")) return "copy";
  if (work == "memset") return work;
  if (const std::string kind = f.text("kind"); !kind.empty()) return kind;
  return is(event, "run") ? "run" : "kernel";
}

std::vector<DeviceWork> Reading::work() const {
  std::map<std::string, DeviceWork> gpus, steps, runs, copies;
  const auto add = [&](std::map<std::string, DeviceWork>& to, const char* source, std::size_t i) {
    DeviceWork& work = to[device(i)];
    work.device = device(i);
    work.source = source;
    work.done.push_back({&collected_.events[i], own_[i]});
    work.nanoseconds += own_[i];
  };
  for (std::size_t i = 0; i < collected_.events.size(); ++i) {
    const Event& event = collected_.events[i];
    if (device_[i] == 0) continue;
    if (is(event, "gpu"))
      add(gpus, "CUPTI", i);
    else if (is(event, "run"))
      add(runs, "runs", i);
    else if (is(event, "copy"))
      add(copies, "timers", i);
    else if (is_work(event))
      add(steps, "timers", i);
  }
  std::vector<DeviceWork> all;
  const auto known = [&](const std::string& device) {
    return std::find_if(all.begin(), all.end(), [&](const DeviceWork& w) { return w.device == device; });
  };
  for (std::map<std::string, DeviceWork>* kind : {&gpus, &steps, &runs})  // the best that is known of each
    for (auto& [device, work] : *kind)
      if (known(device) == all.end()) all.push_back(std::move(work));
  for (auto& [device, work] : copies) {
    const auto whole = known(device);
    if (whole == all.end()) {
      all.push_back(std::move(work));
      continue;
    }
    whole->done.insert(whole->done.end(), work.done.begin(), work.done.end());
    whole->nanoseconds += work.nanoseconds;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const DeviceWork& a, const DeviceWork& b) { return a.nanoseconds > b.nanoseconds; });
  return all;
}

}  // namespace systole::profiling
