#pragma once

// What a timeline recorded, read: the details of its events, the device that each is of, the time that is its
// own, and so the work of every device.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/timeline.h"

namespace systole::profiling {

using Event = timeline::Collected::Event;

// The details of an event, of step_details(), of copies and of CUPTI's records.
struct Facts {
  std::map<std::string, std::string, std::less<>> words;
  std::map<std::string, std::int64_t, std::less<>> numbers;

  std::string text(std::string_view name) const {
    const auto found = words.find(name);
    return found == words.end() ? std::string() : found->second;
  }
  std::int64_t number(std::string_view name) const {
    const auto found = numbers.find(name);
    return found == numbers.end() ? 0 : found->second;
  }
};

// A kernel of a GPU, a step, a run or a copy.
struct Done {
  const Event* event;
  std::int64_t nanoseconds;  // its own, without what ran inside it
};

struct DeviceWork {
  std::string device, source;
  std::vector<Done> done;
  std::int64_t nanoseconds = 0;  // of all
};

class Reading {
 public:
  explicit Reading(const timeline::Collected& collected);

  const timeline::Collected& collected() const { return collected_; }
  const std::string& text(std::uint32_t number) const { return collected_.texts[number]; }
  bool is(const Event& event, std::string_view category) const { return text(event.category) == category; }
  const Facts& facts(const Event& event) const { return facts_.at(event.details); }
  // map, library, copy, run, …; empty for what is no work of a device
  std::string kind(const Event& event) const;
  const std::string& device(std::size_t event) const { return names_[device_[event]]; }  // empty: none
  // By device, the one that did most first. GPUs tell their own times; elsewhere steps are timed, and at
  // least runs are.
  std::vector<DeviceWork> work() const;

 private:
  bool is_work(const Event& event) const {
    return is(event, "run") || is(event, "step") || is(event, "kernel") || is(event, "copy");
  }
  void nest(std::vector<std::size_t>& events);
  std::uint32_t number(const std::string& device);

  const timeline::Collected& collected_;
  std::map<std::uint32_t, Facts> facts_;  // by number of the details
  std::vector<std::string> names_{""};    // of devices
  std::map<std::string, std::uint32_t, std::less<>> numbers_{{"", 0}};
  std::vector<std::uint32_t> device_;  // by event
  std::vector<std::int64_t> own_;      // nanoseconds by event
};

}  // namespace systole::profiling
