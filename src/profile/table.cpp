// A Profile as a table: a section for each device.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "profile/words.h"
#include "systole/profile.h"

namespace systole {

namespace {

// "12.3 µs"; no wider than its column
std::string time_text(double seconds) {
  constexpr double kRounded = .9995;  // to three digits, the next unit
  const double size = std::abs(seconds);
  if (size < .0005e-9) return "0";
  if (size < kRounded * 1e-9) return fmt::format("{:.1g} ns", seconds * 1e9);
  if (size < kRounded * 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (size < kRounded * 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  if (size < kRounded) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

std::string bytes_text(double bytes) {
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"})
    if (bytes >= 1024) {
      bytes /= 1024;
      unit = next;
    }
  return fmt::format("{:.4g} {}", bytes, unit);
}

// Columns of a text, which may have characters of several bytes.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string cut(std::string_view text, std::size_t most) {
  if (columns(text) <= most) return std::string(text);
  std::string kept;
  std::size_t count = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80 && ++count == most) break;
    kept += c;
  }
  return kept + "…";
}

std::string right(std::string_view text, std::size_t width) {
  const std::size_t has = columns(text);
  return std::string(width > has ? width - has : 0, ' ') + std::string(text);
}

std::string rate_text(double rate, double unit) {
  return rate > 0 ? fmt::format("{:.3g}", rate / unit) : std::string("–");
}

double percent(double part, double of) { return of > 0 ? 100 * part / of : 0; }

std::string roof_text(const Roof& roof) {
  if (!roof.defined()) return {};
  std::string text = fmt::format("roof, as measured here: {:.4g} GB/s", roof.bytes_per_second / 1e9);
  for (const Roof::Product& product : roof.products)
    text += fmt::format(", {} {:.4g} TFLOP/s", profiling::product_name(product.dtype, product.tf32),
                        product.flops_per_second / 1e12);
  return text + '\n';
}

// "onednn" of "onednn.matmul" and of "oneDNN: the reason".
std::string library_of(std::string_view text) {
  std::string name(text.substr(0, text.find_first_of(".:")));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

// Of the library that ran it, it is the work on the result that was refused.
std::string_view refusal_word(const Profile::Row& row, std::string_view reason) {
  if (reason.starts_with("timed")) return "";
  return library_of(reason) == library_of(row.ran) ? "not all by " : "not ";
}

std::string row_text(const Profile::Row& row, const Profile::Device& device, std::int64_t steps) {
  const double parts = steps > 0 ? static_cast<double>(steps) : 1;
  const std::string calls = steps > 0 && row.calls % steps == 0 ? fmt::format("{}", row.calls / steps)
                            : steps > 0 && steps % row.calls == 0
                                ? fmt::format("1/{}", steps / row.calls)
                                : fmt::format("{:.3g}", static_cast<double>(row.calls) / parts);
  std::string what = row.name;
  if (!row.ran.empty() && row.ran != "generated" && what.find(row.ran) == std::string::npos)
    what += " by " + row.ran;
  std::string text =
      fmt::format("{} {} {:>5.1f}% {:>6} {:>8} {:>8} {:>6}  {:<7} {}\n",
                  right(row.least_seconds > 0 ? time_text(row.lost_seconds() / parts) : "–", 9),
                  right(time_text(row.seconds / parts), 9), percent(row.seconds, device.seconds), calls,
                  rate_text(row.bytes_per_second(), 1e9), rate_text(row.flops_per_second(), 1e12),
                  row.least_seconds > 0 ? fmt::format("{:.0f}%", 100 * row.share_of_roof()) : "–",
                  profiling::is_loop(row.kind) && device.source == "timers" ? "host"
                  : row.least_seconds == 0                                  ? "–"
                  : row.memory_bound(device.roof)                           ? "memory"
                                                                            : "maths",
                  cut(what, 52));
  for (const std::string& reason : row.declined)
    text += fmt::format("{:>22}{}{}\n", "", refusal_word(row, reason), cut(reason, 92));
  return text;
}

std::string rows_text(const Profile& profile, const Profile::Device& device, std::size_t most) {
  std::string text = fmt::format(
      "\n{}{}\n", profile.steps > 0 ? "times are of a step; " : "",
      device.roof.defined() ? "most time lost against the roof comes first" : "the roof is not known");
  text += "     lost      time  share  calls     GB/s  TFLOP/s   roof  bound   step\n";
  std::size_t count = 0;
  double rest = 0;
  for (const Profile::Row& row : profile.rows) {
    if (row.device != device.device) continue;
    if (++count <= most)
      text += row_text(row, device, profile.steps);
    else
      rest += row.seconds;
  }
  if (count > most)
    text +=
        fmt::format("{} {}  and {} more\n", right("", 9),
                    right(time_text(rest / static_cast<double>(std::max<std::int64_t>(profile.steps, 1))), 9),
                    count - most);
  const auto gap = std::find_if(profile.gaps.begin(), profile.gaps.end(),
                                [&](const Profile::Gap& g) { return g.device == device.device; });
  if (gap != profile.gaps.end() && percent(device.idle_seconds, profile.seconds) >= 5)
    text += fmt::format("longest time without work: {} after {}{}\n", time_text(gap->seconds),
                        cut(gap->after, 60),
                        gap->during.empty() ? "" : ", the program in " + cut(gap->during, 30));
  return text;
}

std::string lost_text(const Profile& profile) {
  std::string text = fmt::format("{} events found no room: all is of the {} until then", profile.lost_events,
                                 time_text(profile.seconds));
  if (profile.unrecorded_seconds > 0)
    text += fmt::format(", not of the {} that followed", time_text(profile.unrecorded_seconds));
  if (profile.unrecorded_steps > 0) text += fmt::format(" with {} steps", profile.unrecorded_steps);
  return text + '\n';
}

}  // namespace

std::string Profile::table(std::size_t most) const {
  const double parts = steps > 0 ? static_cast<double>(steps) : 1;
  std::string text = title.empty() ? "" : title + ", ";
  text += fmt::format("{}: ", device.empty() ? "no device" : device);
  if (steps > 0) text += fmt::format("{} steps, {} a step, ", steps, time_text(seconds / parts));
  text += fmt::format("{} in all; busy {:.1f} %, idle {:.1f} %; in the library {:.1f} %\n",
                      time_text(seconds), percent(busy_seconds, seconds), percent(idle_seconds, seconds),
                      percent(host_seconds, seconds));
  if (plain_seconds > 0)
    text += fmt::format("without the profiler {} a step: {}\n", time_text(plain_seconds / parts),
                        slowdown() > 1 ? fmt::format("it costs {:.1f} %", 100 * (slowdown() - 1))
                                       : std::string("it costs less than the time varies"));
  for (std::size_t i = 1; i < devices.size(); ++i)
    text += fmt::format("{} worked too, {} in all: see below\n", devices[i].device,
                        time_text(devices[i].seconds));
  for (const Memory& one : memory)
    text += fmt::format("memory of {}: {} at most\n", one.device,
                        bytes_text(static_cast<double>(one.peak_bytes)));
  if (lost_events > 0) text += lost_text(*this);
  if (devices.empty())
    return text + (lost_events > 0 ? "what ran on a device found no room\n" : "nothing ran on a device\n");
  for (const Device& each : devices) {
    if (each.device != device)
      text += fmt::format("\n{}: busy {:.1f} %, idle {:.1f} %\n", each.device,
                          percent(each.busy_seconds, seconds), percent(each.idle_seconds, seconds));
    text += roof_text(each.roof) + rows_text(*this, each, most);
  }
  return text;
}

}  // namespace systole
