#include "profile/summary.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "profile/words.h"
#include "profile/work.h"

namespace systole {

namespace {

using profiling::Event;
using timeline::Collected;

double seconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

}  // namespace

namespace profiling {

namespace {

constexpr std::size_t kMostGaps = 100;  // that are kept

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Interval {
  std::int64_t begin, end;
  std::uint32_t name;
};

class Summary {
 public:
  explicit Summary(const Collected& collected) : collected_(collected), reading_(collected) {}

  Profile profile() {
    Profile made;
    made.seconds = seconds_of(collected_.end - collected_.begin);
    made.lost_events = collected_.lost;
    made.host_seconds = host_seconds();
    made.memory = memory();
    std::vector<DeviceWork> all = reading_.work();
    if (all.empty()) all.emplace_back();  // which is idle
    for (const DeviceWork& work : all) {
      Profile::Device device{work.device, work.source, seconds_of(work.nanoseconds)};
      find_gaps(work, device, made.gaps);
      for (Profile::Row& row : rows(work)) made.rows.push_back(std::move(row));
      made.devices.push_back(std::move(device));
    }
    const Profile::Device& most = made.devices.front();
    made.device = most.device;
    made.source = most.source;
    made.busy_seconds = most.busy_seconds;
    made.idle_seconds = most.idle_seconds;
    made.gap_count = most.gap_count;
    if (made.device.empty()) made.devices.clear();
    return made;
  }

 private:
  const std::string& text(std::uint32_t number) const { return reading_.text(number); }
  bool is(const Event& event, std::string_view category) const { return reading_.is(event, category); }

  std::vector<Profile::Row> rows(const DeviceWork& work) const {
    using Key =
        std::tuple<bool, std::string, std::string, std::string, std::int64_t, std::int64_t, std::string>;
    std::map<Key, Profile::Row> all;
    for (const auto& [event, nanoseconds] : work.done) {
      const Facts& f = reading_.facts(*event);
      const std::string kind = reading_.kind(*event);
      const bool is_move = !f.text("work").empty() && (kind == "copy" || kind == "memset");  // the driver's
      const bool holds_steps = is_loop(kind);
      const std::string ran = is_move ? f.text("work") : holds_steps || kind == "copy" ? "" : f.text("ran");
      const std::int64_t bytes = is_move || holds_steps ? 0 : f.number("bytes");
      Profile::Row& row =
          all[{is_move, text(event->name), kind, ran, bytes, f.number("flops"), f.text("dtype")}];
      row.name = text(event->name);
      row.kind = kind;
      row.ran = ran;
      row.device = work.device;
      row.seconds += seconds_of(nanoseconds);
      row.flops = holds_steps ? 0 : f.number("flops");
      row.tf32 = f.text("math") == "tf32";
      if (const std::optional<DType> dtype = parse_dtype(f.text("dtype"))) row.dtype = *dtype;
      if (row.calls == 0) row.declined = lines_of(f.text("declined"));
      row.bytes = is_move ? row.bytes + f.number("bytes") : bytes;
      // A step may launch several kernels; one of them is its first.
      const bool is_part = !is_move && work.source == "CUPTI" && !f.text("kind").empty();
      if (!is_part || f.number("first") != 0) ++row.calls;
      if (work.source == "CUPTI") add_launch(row, f, nanoseconds);
    }
    std::vector<Profile::Row> made;
    for (auto& [key, row] : all) {
      row.calls = std::max<std::int64_t>(row.calls, 1);
      if (std::get<bool>(key)) row.bytes /= row.calls;  // of one of the moves: the mean
      made.push_back(std::move(row));
    }
    return made;
  }

  static void add_launch(Profile::Row& row, const Facts& f, std::int64_t nanoseconds) {
    Profile::Launched one{f.text("work"), f.text("grid"), f.text("block")};
    one.registers = f.number("registers");
    one.shared_bytes = f.number("shared bytes");
    one.local_bytes = f.number("local bytes");
    one.occupancy = static_cast<double>(f.number("occupancy %")) / 100;
    auto at = std::find_if(row.launched.begin(), row.launched.end(), [&](const Profile::Launched& l) {
      return l.name == one.name && l.grid == one.grid && l.block == one.block &&
             l.registers == one.registers && l.shared_bytes == one.shared_bytes;
    });
    if (at == row.launched.end()) at = row.launched.insert(at, std::move(one));
    ++at->calls;
    at->seconds += seconds_of(nanoseconds);
  }

  // The union of the device's work and what lies between, from the beginning to the end.
  void find_gaps(const DeviceWork& work, Profile::Device& device, std::vector<Profile::Gap>& all) const {
    std::vector<Interval> intervals;
    for (const auto& [event, nanoseconds] : work.done)
      intervals.push_back({event->begin, event->end, event->name});
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::int64_t at = collected_.begin, busy = 0;
    std::string last = "the beginning";
    std::vector<Profile::Gap> gaps;
    const auto gap = [&](std::int64_t to, const std::string& before) {
      if (to <= at) return;
      gaps.push_back({seconds_of(at - collected_.begin), seconds_of(to - at), last, before, "", work.device});
    };
    for (const Interval& interval : intervals) {
      const std::int64_t begin = std::clamp(interval.begin, collected_.begin, collected_.end),
                         end = std::clamp(interval.end, collected_.begin, collected_.end);
      gap(begin, text(interval.name));
      busy += std::max<std::int64_t>(end - std::max(begin, at), 0);
      if (end > at) last = text(interval.name);
      at = std::max(at, end);
    }
    gap(collected_.end, "the end");
    device.busy_seconds = seconds_of(busy);
    for (const Profile::Gap& each : gaps) device.idle_seconds += each.seconds;
    std::stable_sort(gaps.begin(), gaps.end(),
                     [](const Profile::Gap& a, const Profile::Gap& b) { return a.seconds > b.seconds; });
    device.gap_count = std::ssize(gaps);
    if (gaps.size() > kMostGaps) gaps.resize(kMostGaps);
    find_reasons(gaps);
    all.insert(all.end(), std::move_iterator(gaps.begin()), std::move_iterator(gaps.end()));
  }

  // Where the program was for at least half of each: the innermost such span of a thread.
  void find_reasons(std::vector<Profile::Gap>& gaps) const {
    std::vector<std::int64_t> shortest(gaps.size(), std::numeric_limits<std::int64_t>::max());
    for (const Event& event : collected_.events) {
      if (!is(event, "run") && !is(event, "compile") && !is(event, "kernel") && !is(event, "copy") &&
          !is(event, "user"))
        continue;
      const double begin = seconds_of(event.begin - collected_.begin),
                   end = seconds_of(event.end - collected_.begin);
      for (std::size_t i = 0; i < gaps.size(); ++i) {
        Profile::Gap& gap = gaps[i];
        const double inside = std::min(end, gap.begin + gap.seconds) - std::max(begin, gap.begin);
        if (inside < gap.seconds / 2 || event.end - event.begin >= shortest[i]) continue;
        shortest[i] = event.end - event.begin;
        gap.during = text(event.name);
      }
    }
  }

  double host_seconds() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (const Event& event : collected_.events)
      if (is(event, "run") || is(event, "compile")) all.emplace_back(event.begin, event.end);
    std::sort(all.begin(), all.end());
    std::int64_t at = collected_.begin, sum = 0;
    for (const auto& [begin, end] : all) {
      sum += std::max<std::int64_t>(std::min(end, collected_.end) - std::max(begin, at), 0);
      at = std::max(at, end);
    }
    return seconds_of(sum);
  }

  std::vector<Profile::Memory> memory() const {
    constexpr std::string_view kEnd = " memory";
    std::map<std::uint32_t, Profile::Memory> all;
    for (const Collected::Level& level : collected_.levels) {
      const std::string& name = text(level.name);
      if (!name.ends_with(kEnd)) continue;
      Profile::Memory& one = all[level.name];
      one.device = name.substr(0, name.size() - kEnd.size());
      one.peak_bytes = std::max(one.peak_bytes, level.value);
      one.levels.push_back({seconds_of(level.at - collected_.begin), level.value});
    }
    std::vector<Profile::Memory> made;
    for (auto& [name, one] : all)
      if (one.peak_bytes > 0) made.push_back(std::move(one));  // else it was only looked at
    return made;
  }

  const Collected& collected_;
  const Reading reading_;
};

}  // namespace

namespace {

// Where what was kept is all there was: at the last event before the first that found no room, and at the
// last step before that.
std::int64_t known_until(const Collected& collected, std::span<const std::int64_t> steps) {
  if (collected.lost == 0 || collected.lost_from >= collected.end) return collected.end;
  std::int64_t event = collected.begin, step = collected.begin;
  for (const Event& each : collected.events)
    if (each.end <= collected.lost_from) event = std::max(event, each.end);
  for (const std::int64_t at : steps)
    if (at <= collected.lost_from) step = std::max(step, at);
  return step > collected.begin ? step : event;
}

}  // namespace

Profile summary(Collected collected, std::span<const std::int64_t> steps) {
  const std::int64_t whole = std::exchange(collected.end, known_until(collected, steps));
  // Without what was before and after, and of what hangs over the part inside.
  std::erase_if(collected.events, [&](const Event& event) {
    return event.end <= collected.begin || event.begin >= collected.end;
  });
  for (Event& event : collected.events) {
    event.begin = std::max(event.begin, collected.begin);
    event.end = std::min(event.end, collected.end);
  }
  if (collected.end < whole)
    std::erase_if(collected.levels, [&](const Collected::Level& level) { return level.at > collected.end; });
  auto recording = std::make_shared<const Profile::Recording>(Profile::Recording{std::move(collected)});
  Profile made = Summary(recording->collected).profile();
  made.unrecorded_seconds = seconds_of(whole - recording->collected.end);
  made.steps = std::count_if(steps.begin(), steps.end(),
                             [&](std::int64_t at) { return at <= recording->collected.end; });
  made.unrecorded_steps = std::ssize(steps) - made.steps;
  made.recording = std::move(recording);
  return made;
}

void place_under(const Roof& roof, Profile& profile) {
  const std::string& device = roof.device.empty() ? profile.device : roof.device;
  if (device == profile.device) profile.roof = roof;
  std::map<std::string, std::size_t> order;
  std::map<std::string, std::string> sources;
  for (Profile::Device& each : profile.devices) {
    order.emplace(each.device, order.size());
    sources.emplace(each.device, each.source);
    if (each.device == device) each.roof = roof;
  }
  for (Profile::Row& row : profile.rows) {
    if (row.device != device) continue;
    // Both ends of a processor's copies are its own memory.
    const bool is_on_device =
        row.ran == timeline::kOnDevice || (row.kind == "copy" && !row.ran.empty() && row.device == "cpu");
    if (!is_on_device && (row.ran.starts_with("copy") || row.kind == "memset"))
      continue;  // not by memory alone
    const double bytes = static_cast<double>(row.bytes) * (is_on_device ? 2 : 1);
    row.least_seconds = roof.least_seconds(bytes, static_cast<double>(row.flops), row.dtype, row.tf32);
  }
  // What nothing is known of may all be lost, but what lies between steps is no work of the device.
  const auto key = [&](const Profile::Row& row) {
    const bool is_between = is_loop(row.kind) && sources[row.device] == "timers";
    const double lost = row.least_seconds > 0 ? row.lost_seconds() : is_between ? 0 : row.seconds;
    return std::tuple(order[row.device], is_between, -lost, -row.seconds);
  };
  std::stable_sort(profile.rows.begin(), profile.rows.end(),
                   [&](const Profile::Row& a, const Profile::Row& b) { return key(a) < key(b); });
}

std::vector<Profile::Span> first_spans(const Collected& all, std::size_t most) {
  std::vector<std::size_t> order(all.events.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return all.events[a].begin < all.events[b].begin; });
  order.resize(std::min(order.size(), most));
  const Reading reading(all);
  std::vector<Profile::Span> made;
  made.reserve(order.size());
  for (const std::size_t i : order) {
    const Event& event = all.events[i];
    const Facts& facts = reading.facts(event);
    const std::string kind = reading.kind(event);
    const bool is_move = kind == "copy" || kind == "memset";
    made.push_back({.row = all.texts[event.row],
                    .category = all.texts[event.category],
                    .name = all.texts[event.name],
                    .begin = seconds_of(event.begin - all.begin),
                    .seconds = seconds_of(event.end - event.begin),
                    .device = reading.device(i),
                    .kind = kind,
                    .ran = facts.text("ran"),
                    .kernel = is_move ? std::string() : facts.text("work"),
                    .bytes = facts.number("bytes"),
                    .flops = facts.number("flops")});
  }
  return made;
}

}  // namespace profiling

std::vector<Profile::Span> Profile::spans() const {
  if (!recording) return {};
  return profiling::first_spans(recording->collected, recording->collected.events.size());
}

}  // namespace systole
