// A Profile as a table, as JSON, as a trace and as a page.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string_view>

#include "base/file.h"
#include "io/json.h"
#include "profile/page.h"
#include "profile/summary.h"
#include "systole/base/error.h"

namespace systole {

namespace {

constexpr std::size_t kMostSpans = 60'000, kMostLevels = 20'000;  // of a page

// "12.3 µs"
std::string time_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0";
  if (size < 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  if (size < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
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

std::string_view dtype_name(DType dtype, bool tf32) {
  return tf32 && dtype == DType::f32 ? "tf32" : name(dtype);
}

double finite(double x) { return std::isfinite(x) ? x : 0; }

std::string quoted(std::string_view text) {
  std::string clean;  // a kernel's name may hold anything
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t good = io::utf8_prefix(rest);
    clean += rest.substr(0, good);
    if (good == rest.size()) break;
    clean += '?';
    rest.remove_prefix(good + 1);
  }
  return io::json_quoted(clean, "profile");
}

// Text of JSON, by its parts.
class Json {
 public:
  Json& open(char bracket) {
    comma();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  Json& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  Json& key(std::string_view name) {
    comma();
    text_ += quoted(name);
    text_ += ':';
    first_ = true;  // the value needs no comma
    return *this;
  }
  Json& value(double x) { return raw(fmt::format("{:.9g}", finite(x))); }
  Json& value(std::int64_t x) { return raw(fmt::format("{}", x)); }
  Json& value(std::string_view x) { return raw(quoted(x)); }
  template <class T>
  Json& field(std::string_view name, const T& x) {
    return key(name).value(x);
  }
  Json& json(const std::string& words) { return raw(words); }  // a value that is JSON
  const std::string& text() const { return text_; }

 private:
  void comma() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  Json& raw(const std::string& words) {
    comma();
    text_ += words;
    return *this;
  }
  std::string text_;
  bool first_ = true;
};

void add_row(Json& json, const Profile::Row& row, const Roof& roof) {
  json.open('{').field("name", std::string_view(row.name)).field("kind", std::string_view(row.kind));
  json.field("ran", std::string_view(row.ran))
      .field("dtype", dtype_name(row.dtype, row.tf32))
      .field("calls", row.calls);
  json.field("seconds", row.seconds).field("bytes", row.bytes).field("flops", row.flops);
  json.field("least_seconds", row.least_seconds).field("lost_seconds", row.lost_seconds());
  json.field("bytes_per_second", row.bytes_per_second()).field("flops_per_second", row.flops_per_second());
  json.field("share_of_roof", row.share_of_roof());
  json.field("bound", std::string_view(row.least_seconds == 0   ? ""
                                       : row.memory_bound(roof) ? "memory"
                                                                : "arithmetic"));
  json.key("declined").open('[');
  for (const std::string& reason : row.declined) json.value(std::string_view(reason));
  json.close(']').key("launched").open('[');
  for (const Profile::Launched& l : row.launched) {
    json.open('{').field("name", std::string_view(l.name)).field("grid", std::string_view(l.grid));
    json.field("block", std::string_view(l.block)).field("calls", l.calls).field("seconds", l.seconds);
    json.field("registers", l.registers).field("shared_bytes", l.shared_bytes);
    json.field("local_bytes", l.local_bytes).field("occupancy", l.occupancy).close('}');
  }
  json.close(']').close('}');
}

void add_memory(Json& json, const Profile::Memory& memory, std::size_t most) {
  json.open('{').field("device", std::string_view(memory.device)).field("peak_bytes", memory.peak_bytes);
  json.key("levels").open('[');
  // Of too many, the highest of each part.
  const std::size_t stride = (memory.levels.size() + most - 1) / std::max<std::size_t>(most, 1);
  for (std::size_t i = 0; i < memory.levels.size(); i += std::max<std::size_t>(stride, 1)) {
    Profile::Level level = memory.levels[i];
    for (std::size_t k = i; k < std::min(i + stride, memory.levels.size()); ++k)
      if (memory.levels[k].bytes > level.bytes) level = memory.levels[k];
    json.open('[').value(level.at).value(level.bytes).close(']');
  }
  json.close(']').close('}');
}

void add_timeline(Json& json, const Profile& profile) {
  std::vector<Profile::Span> spans = profile.spans();
  const std::size_t all = spans.size();
  if (spans.size() > kMostSpans) spans.resize(kMostSpans);  // the first steps, whole
  std::map<std::string, std::size_t, std::less<>> rows, categories, names;
  std::vector<std::string> row_list, category_list, name_list;
  const auto number = [](auto& numbers, std::vector<std::string>& list, const std::string& text) {
    const auto [at, is_new] = numbers.try_emplace(text, list.size());
    if (is_new) list.push_back(text);
    return static_cast<std::int64_t>(at->second);
  };
  Json list;
  list.open('[');
  for (const Profile::Span& span : spans)
    list.open('[')
        .value(number(rows, row_list, span.row))
        .value(number(categories, category_list, span.category))
        .value(number(names, name_list, span.name))
        .value(span.begin * 1e6)
        .value(span.seconds * 1e6)
        .close(']');
  list.close(']');
  json.key("timeline").open('{');
  const auto add_list = [&](std::string_view key, const std::vector<std::string>& texts) {
    json.key(key).open('[');
    for (const std::string& text : texts) json.value(std::string_view(text));
    json.close(']');
  };
  add_list("rows", row_list);
  add_list("categories", category_list);
  add_list("names", name_list);
  json.key("spans").json(list.text());
  json.field("left_out", static_cast<std::int64_t>(all - spans.size())).close('}');
}

}  // namespace

double Profile::Row::lost_seconds() const {
  return least_seconds > 0 ? std::max(0.0, seconds - static_cast<double>(calls) * least_seconds) : 0;
}
double Profile::Row::bytes_per_second() const {
  return seconds > 0 ? static_cast<double>(bytes) * static_cast<double>(calls) / seconds : 0;
}
double Profile::Row::flops_per_second() const {
  return seconds > 0 ? static_cast<double>(flops) * static_cast<double>(calls) / seconds : 0;
}
double Profile::Row::share_of_roof() const {
  return seconds > 0 ? static_cast<double>(calls) * least_seconds / seconds : 0;
}
bool Profile::Row::memory_bound(const Roof& roof) const {
  const double peak = roof.flops_per_second(dtype, tf32);
  if (!roof.defined() || peak == 0) return true;
  return static_cast<double>(bytes) / roof.bytes_per_second >= static_cast<double>(flops) / peak;
}

double Profile::slowdown() const { return plain_seconds > 0 ? seconds / plain_seconds : 0; }

std::string Profile::table(std::size_t most) const {
  const double parts = steps > 0 ? static_cast<double>(steps) : 1;
  const auto share = [&](double part, double of) { return of > 0 ? 100 * part / of : 0; };
  std::string text = title.empty() ? "" : title + ", ";
  text += fmt::format("{}: ", device.empty() ? "no device" : device);
  if (steps > 0) text += fmt::format("{} steps, {} a step, ", steps, time_text(seconds / parts));
  text +=
      fmt::format("{} in all; busy {:.1f} %, idle {:.1f} %; in the library {:.1f} %\n", time_text(seconds),
                  share(busy_seconds, seconds), share(idle_seconds, seconds), share(host_seconds, seconds));
  if (plain_seconds > 0)
    text += fmt::format("without the profiler {} a step: {}\n", time_text(plain_seconds / parts),
                        slowdown() > 1 ? fmt::format("it costs {:.1f} %", 100 * (slowdown() - 1))
                                       : std::string("it costs less than the time varies"));
  if (roof.defined()) {
    text += fmt::format("roof, as measured here: {:.4g} GB/s", roof.bytes_per_second / 1e9);
    for (const Roof::Product& product : roof.products)
      text += fmt::format(", {} {:.4g} TFLOP/s", dtype_name(product.dtype, product.tf32),
                          product.flops_per_second / 1e12);
    text += '\n';
  }
  for (std::size_t i = 1; i < devices.size(); ++i)
    text += fmt::format("{} worked too, {} in all: it is not in this table\n", devices[i].device,
                        time_text(devices[i].seconds));
  for (const Memory& one : memory)
    text += fmt::format("memory of {}: {} at most\n", one.device,
                        bytes_text(static_cast<double>(one.peak_bytes)));
  if (lost_events > 0) text += fmt::format("{} events found no room\n", lost_events);
  if (rows.empty()) return text + "nothing ran on a device\n";
  text +=
      fmt::format("\n{}{}\n", steps > 0 ? "times are of a step; " : "",
                  roof.defined() ? "most time lost against the roof comes first" : "the roof is not known");
  text += "     lost      time  share  calls     GB/s  TFLOP/s   roof  bound   step\n";
  double shown = 0;
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const Row& row = rows[i];
    shown += row.seconds;
    const std::string calls = steps > 0 && row.calls % steps == 0
                                  ? fmt::format("{}", row.calls / steps)
                                  : fmt::format("{:.3g}", static_cast<double>(row.calls) / parts);
    std::string what = row.name;
    if (!row.ran.empty() && row.ran != "generated" && what.find(row.ran) == std::string::npos)
      what += " by " + row.ran;
    text += fmt::format("{} {} {:>5.1f}% {:>6} {:>8} {:>8} {:>6}  {:<7} {}\n",
                        right(row.least_seconds > 0 ? time_text(row.lost_seconds() / parts) : "–", 9),
                        right(time_text(row.seconds / parts), 9), share(row.seconds, busy_seconds), calls,
                        rate_text(row.bytes_per_second(), 1e9), rate_text(row.flops_per_second(), 1e12),
                        row.least_seconds > 0 ? fmt::format("{:.0f}%", 100 * row.share_of_roof()) : "–",
                        row.least_seconds == 0   ? "–"
                        : row.memory_bound(roof) ? "memory"
                                                 : "maths",
                        cut(what, 52));
    for (const std::string& reason : row.declined)
      text += fmt::format("{:>22}{}{}\n", "", reason.starts_with("timed") ? "" : "not ", cut(reason, 92));
  }
  if (rows.size() > most) {
    double rest = 0;
    for (std::size_t i = most; i < rows.size(); ++i) rest += rows[i].seconds;
    text += fmt::format("{} {}  and {} more\n", right("", 9), right(time_text(rest / parts), 9),
                        rows.size() - most);
  }
  if (!gaps.empty() && share(idle_seconds, seconds) >= 5)
    text += fmt::format("longest time without work: {} after {}{}\n", time_text(gaps[0].seconds),
                        cut(gaps[0].after, 60),
                        gaps[0].during.empty() ? "" : ", the program in " + cut(gaps[0].during, 30));
  return text;
}

namespace {

std::string json_of(const Profile& p, bool for_page) {
  Json json;
  json.open('{').field("title", std::string_view(p.title)).field("device", std::string_view(p.device));
  json.field("source", std::string_view(p.source)).field("steps", p.steps).field("seconds", p.seconds);
  json.field("busy_seconds", p.busy_seconds).field("idle_seconds", p.idle_seconds);
  json.field("host_seconds", p.host_seconds).field("plain_seconds", p.plain_seconds);
  json.field("slowdown", p.slowdown()).field("lost_events", p.lost_events);
  json.field("gap_count", p.gap_count).key("devices").open('[');
  for (const Profile::DeviceTime& each : p.devices)
    json.open('{').field("device", std::string_view(each.device)).field("seconds", each.seconds).close('}');
  json.close(']');
  json.key("roof").open('{').field("device", std::string_view(p.roof.device));
  json.field("bytes_per_second", p.roof.bytes_per_second).key("products").open('[');
  for (const Roof::Product& product : p.roof.products)
    json.open('{')
        .field("dtype", dtype_name(product.dtype, product.tf32))
        .field("flops_per_second", product.flops_per_second)
        .close('}');
  json.close(']').close('}').key("rows").open('[');
  for (const Profile::Row& row : p.rows) add_row(json, row, p.roof);
  json.close(']').key("gaps").open('[');
  for (const Profile::Gap& gap : p.gaps)
    json.open('{')
        .field("begin", gap.begin)
        .field("seconds", gap.seconds)
        .field("after", std::string_view(gap.after))
        .field("before", std::string_view(gap.before))
        .field("during", std::string_view(gap.during))
        .close('}');
  json.close(']').key("memory").open('[');
  for (const Profile::Memory& one : p.memory)
    add_memory(json, one, for_page ? kMostLevels : std::max<std::size_t>(one.levels.size(), 1));
  json.close(']');
  if (for_page) add_timeline(json, p);
  return json.close('}').text();
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  write_file(file, std::as_bytes(std::span(text)));
}

}  // namespace

std::string Profile::json() const { return json_of(*this, false); }

void Profile::save_trace(const std::filesystem::path& file) const {
  timeline::write_trace(recording ? recording->collected : timeline::Collected{}, file.string());
}

void Profile::save_page(const std::filesystem::path& file) const {
  std::string safe;
  for (const char c : json_of(*this, true)) {  // no name may end the script
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  std::string page(profiling::kPage);
  const std::size_t at = page.find(profiling::kPlace);
  if (at == std::string::npos)
    throw Error(ErrorKind::kInternal, "profile", "the page has no place for its data");
  write_text(file, page.replace(at, profiling::kPlace.size(), safe));
}

void Profile::save(const std::filesystem::path& folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorKind::kIo, folder.string(), fmt::format("cannot make the folder: {}", error.message()));
  save_page(folder / "index.html");
  save_trace(folder / "trace.json");
  write_text(folder / "profile.json", json() + "\n");
}

}  // namespace systole
