// A Profile as JSON, as a trace and as a page.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "io/json.h"
#include "profile/page.h"
#include "profile/summary.h"
#include "profile/words.h"
#include "systole/base/error.h"

namespace systole {

namespace {

constexpr std::size_t kMostSpans = 60'000;   // of a page
constexpr std::size_t kMostLevels = 20'000;  // of a device's memory

double finite(double x) { return std::isfinite(x) ? x : 0; }

std::string json_text(std::string_view text) {
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
    text_ += json_text(name);
    text_ += ':';
    first_ = true;  // the value needs no comma
    return *this;
  }
  Json& value(double x) { return raw(fmt::format("{:.9g}", finite(x))); }
  Json& value(std::int64_t x) { return raw(fmt::format("{}", x)); }
  Json& value(std::string_view x) { return raw(json_text(x)); }
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

void add_roof(Json& json, const Roof& roof) {
  json.key("roof").open('{').field("device", std::string_view(roof.device));
  json.field("bytes_per_second", roof.bytes_per_second).key("products").open('[');
  for (const Roof::Product& product : roof.products)
    json.open('{')
        .field("dtype", profiling::product_name(product.dtype, product.tf32))
        .field("flops_per_second", product.flops_per_second)
        .close('}');
  json.close(']').close('}');
}

void add_device(Json& json, const Profile::Device& device) {
  json.open('{').field("device", std::string_view(device.device));
  json.field("source", std::string_view(device.source)).field("seconds", device.seconds);
  json.field("busy_seconds", device.busy_seconds).field("idle_seconds", device.idle_seconds);
  json.field("gap_count", device.gap_count);
  add_roof(json, device.roof);
  json.close('}');
}

const Roof& roof_of(const Profile& profile, const std::string& device) {
  for (const Profile::Device& each : profile.devices)
    if (each.device == device) return each.roof;
  return profile.roof;
}

void add_row(Json& json, const Profile::Row& row, const Roof& roof) {
  json.open('{').field("device", std::string_view(row.device));
  json.field("name", std::string_view(row.name)).field("kind", std::string_view(row.kind));
  json.field("ran", std::string_view(row.ran))
      .field("dtype", profiling::product_name(row.dtype, row.tf32))
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

void add_memory(Json& json, const Profile::Memory& memory) {
  json.open('{').field("device", std::string_view(memory.device)).field("peak_bytes", memory.peak_bytes);
  json.field("level_count", std::ssize(memory.levels));
  json.key("levels").open('[');
  // Of too many, the highest of each part.
  const std::size_t stride = (memory.levels.size() + kMostLevels - 1) / kMostLevels;
  for (std::size_t i = 0; i < memory.levels.size(); i += std::max<std::size_t>(stride, 1)) {
    Profile::Level level = memory.levels[i];
    for (std::size_t k = i; k < std::min(i + stride, memory.levels.size()); ++k)
      if (memory.levels[k].bytes > level.bytes) level = memory.levels[k];
    json.open('[').value(level.at).value(level.bytes).close(']');
  }
  json.close(']').close('}');
}

// What is known of it but its times; the same for many.
std::string facts_of(const Profile::Span& span) {
  Json json;
  json.open('{');
  for (const auto& [key, text] : {std::pair("device", &span.device), std::pair("kind", &span.kind),
                                  std::pair("ran", &span.ran), std::pair("kernel", &span.kernel)})
    if (!text->empty()) json.field(key, std::string_view(*text));
  if (span.bytes > 0) json.field("bytes", span.bytes);
  if (span.flops > 0) json.field("flops", span.flops);
  return json.close('}').text();
}

void add_timeline(Json& json, const Profile& profile) {
  const timeline::Collected none, &collected = profile.recording ? profile.recording->collected : none;
  const std::size_t all = collected.events.size();
  const std::vector<Profile::Span> spans = profiling::first_spans(collected, kMostSpans);
  std::map<std::string, std::size_t, std::less<>> rows, categories, names, facts;
  std::vector<std::string> row_list, category_list, name_list, fact_list;
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
        .value(number(facts, fact_list, facts_of(span)))
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
  json.key("facts").open('[');
  for (const std::string& each : fact_list) json.json(each);
  json.close(']');
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

namespace {

std::string json_of(const Profile& p, bool for_page) {
  Json json;
  json.open('{').field("title", std::string_view(p.title)).field("device", std::string_view(p.device));
  json.field("source", std::string_view(p.source)).field("steps", p.steps).field("seconds", p.seconds);
  json.field("busy_seconds", p.busy_seconds).field("idle_seconds", p.idle_seconds);
  json.field("host_seconds", p.host_seconds).field("plain_seconds", p.plain_seconds);
  json.field("slowdown", p.slowdown()).field("lost_events", p.lost_events);
  json.field("unrecorded_seconds", p.unrecorded_seconds).field("unrecorded_steps", p.unrecorded_steps);
  json.field("gap_count", p.gap_count).key("devices").open('[');
  for (const Profile::Device& each : p.devices) add_device(json, each);
  json.close(']');
  add_roof(json, p.roof);
  json.key("rows").open('[');
  for (const Profile::Row& row : p.rows) add_row(json, row, roof_of(p, row.device));
  json.close(']').key("gaps").open('[');
  for (const Profile::Gap& gap : p.gaps)
    json.open('{')
        .field("device", std::string_view(gap.device))
        .field("begin", gap.begin)
        .field("seconds", gap.seconds)
        .field("after", std::string_view(gap.after))
        .field("before", std::string_view(gap.before))
        .field("during", std::string_view(gap.during))
        .close('}');
  json.close(']').key("memory").open('[');
  for (const Profile::Memory& one : p.memory) add_memory(json, one);
  json.close(']');
  if (for_page) add_timeline(json, p);
  return json.close('}').text();
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  write_file(file, std::as_bytes(std::span(text)));
}

}  // namespace

profiling::Folder::Folder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  is_new_ = !std::filesystem::exists(folder_, error);
  std::filesystem::create_directories(folder_, error);
  if (!error && !std::filesystem::is_directory(folder_))
    error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    throw Error(ErrorKind::kIo, folder_.string(), fmt::format("cannot make the folder: {}", error.message()));
  if (::access(folder_.c_str(), W_OK | X_OK) != 0)
    throw Error(ErrorKind::kIo, folder_.string(), "the folder cannot be written to");
}

profiling::Folder::~Folder() {
  std::error_code error;  // it is not empty, as a rule
  if (is_new_) std::filesystem::remove(folder_, error);
}

std::string Profile::json() const { return json_of(*this, false); }

void Profile::save_trace(const std::filesystem::path& file, std::size_t most) const {
  timeline::write_trace(recording ? recording->collected : timeline::Collected{}, file.string(), most);
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
  const profiling::Folder made(folder);
  save_page(folder / "index.html");
  save_trace(folder / "trace.json");
  write_text(folder / "profile.json", json() + "\n");
}

}  // namespace systole
