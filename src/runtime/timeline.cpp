// One file per process. Events are gathered as text and written in blocks; each block is followed by the end
// of the JSON, which the next block overwrites, so the file can be read at any time. A lock on the file keeps
// a child process that inherits SYSTOLE_TRACE from writing over its parent's.

#include "runtime/timeline.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/env.h"
#include "base/file.h"
#include "base/lasting.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole::timeline {

std::atomic<State> state{State::unknown};

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 16;
constexpr std::int64_t kFirstRow = std::int64_t{1} << 24;  // above the numbers of threads
constexpr std::string_view kHead = R"({"displayTimeUnit":"ms","traceEvents":[)", kEnd = "\n]}\n";
constexpr std::string_view kMark = R"({"displayTimeUnit":"ms",)";  // what every timeline begins with
static_assert(kHead.starts_with(kMark));

// Bytes of the UTF-8 character that `text` begins with; 0 when it is none. JSON takes nothing else.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t size = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned char next = byte(1);  // too long a form, half of a pair, beyond the last character
  if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) || (lead == 0xf0 && next < 0x90) ||
      (lead == 0xf4 && next > 0x8f))
    return 0;
  return size;
}

void append_quoted(std::string& text, std::string_view words) {
  text += '"';
  while (!words.empty()) {
    const char c = words[0];
    const std::size_t size = character(words);
    if (size == 0)
      text += '?';
    else if (static_cast<unsigned char>(c) < 0x20)
      fmt::format_to(std::back_inserter(text), "\\u{:04x}", static_cast<int>(c));
    else if (c == '"' || c == '\\')
      (text += '\\') += c;
    else
      text += words.substr(0, size);
    words.remove_prefix(std::max<std::size_t>(size, 1));
  }
  text += '"';
}

std::int64_t thread_number() {
  thread_local const auto number = static_cast<std::int64_t>(::syscall(SYS_gettid));
  return number;
}

// Events and levels as JSON, without their ends.
std::string span_text(std::string_view category, std::string_view name) {
  std::string event = R"({"ph":"X","cat":)";
  append_quoted(event, category);
  event += R"(,"name":)";
  append_quoted(event, name);
  return event;
}

void append_time(std::string& event, std::int64_t row, std::int64_t begin, std::int64_t end,
                 std::string_view details) {
  fmt::format_to(std::back_inserter(event), R"(,"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})", ::getpid(), row,
                 static_cast<double>(begin) / 1e3, static_cast<double>(end - begin) / 1e3);
  if (!details.empty()) fmt::format_to(std::back_inserter(event), R"(,"args":{})", details);
  event += '}';
}

std::string level_text(std::string_view name, std::int64_t at, std::int64_t value) {
  std::string event = R"({"ph":"C","name":)";
  append_quoted(event, name);
  fmt::format_to(std::back_inserter(event), R"(,"pid":{0},"tid":{0},"ts":{1:.3f},"args":{{"value":{2}}}}})",
                 ::getpid(), static_cast<double>(at) / 1e3, value);
  return event;
}

std::string row_name_text(std::int64_t row, std::string_view words) {
  std::string line =
      fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":)", ::getpid(), row);
  append_quoted(line, words);
  return line + "}}";
}

std::string process_name_text() {
  std::string line =
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{0},"tid":{0},"args":{{"name":)", ::getpid());
  append_quoted(line, program_invocation_short_name);
  return line + "}}";
}

// What is kept in memory.
struct Collection {
  std::int64_t most = 0;
  Collected all;
  std::unordered_map<std::string, std::uint32_t> numbers;

  bool has_room(std::int64_t end) {
    if (std::ssize(all.events) + std::ssize(all.levels) < most) return true;
    lose(end);
    return false;
  }
  void lose(std::int64_t end) {
    ++all.lost;
    if (end > all.begin) all.lost_from = std::min(all.lost_from, end);  // else it was of no interest
  }
  std::uint32_t number(std::string_view text) {
    const auto [at, is_new] =
        numbers.try_emplace(std::string(text), static_cast<std::uint32_t>(all.texts.size()));
    if (is_new) all.texts.emplace_back(text);
    return at->second;
  }
};

// All but the mutex is guarded by it.
struct Writer {
  std::mutex mutex;
  std::string path, block;
  std::string trouble;  // why it ended early, until it is logged
  int file = -1;
  std::int64_t offset = 0;       // in the file, where the block goes
  std::int64_t begin = 0;        // of the timeline
  std::uint64_t generation = 0;  // files so far: each names its threads anew
  bool first = true;
  std::map<std::string, std::int64_t, std::less<>> rows;  // that are no threads, with their numbers
  std::vector<void (*)()> givers, waiters;
  std::optional<Collection> collection;

  void set_state() const {
    state.store(file >= 0 || collection ? State::on : State::off, std::memory_order_relaxed);
  }
  void open(const std::string& wanted);
  void close();
  void flush();
  void add(std::string_view event);
  void add_name(std::int64_t row, std::string_view words);
};

// Never destroyed: threads may record until the very end.
Writer& writer() {
  static Writer& instance = lasting<Writer>();
  return instance;
}

Error failure(const std::string& path, std::string_view what) {
  return {ErrorKind::kIo, path, fmt::format("{}: {}", what, std::strerror(errno))};
}

// Whether the file is empty or begins as a timeline does; one that a full disk cut short is as much of it.
bool may_be_replaced(int file) {
  char first[kMark.size()];
  std::size_t size = 0;
  while (size < sizeof first) {
    const ssize_t n = ::pread(file, first + size, sizeof first - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  return std::string_view(first, size) == kMark.substr(0, size);
}

void Writer::open(const std::string& wanted) {
  std::string name = wanted;
  if (const std::size_t at = name.find("%p"); at != std::string::npos)
    name.replace(at, 2, std::to_string(::getpid()));
  // A variable is inherited and easily names the wrong file: nothing but a trace is written over. Not emptied
  // before it is ours.
  int opened = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (opened < 0 && errno == EEXIST)
    opened = ::open(name.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (opened < 0) throw failure(name, "the timeline cannot be written");
  Descriptor owned(opened);
  struct stat info{};
  if (::fstat(opened, &info) == 0 && !S_ISREG(info.st_mode))
    throw Error(ErrorKind::kIo, name, "the timeline cannot be written: it is not a regular file");
  if (::flock(opened, LOCK_EX | LOCK_NB) != 0)
    throw failure(name, errno == EWOULDBLOCK ? "another process writes its timeline there"
                                             : "the timeline cannot be written");
  if (!may_be_replaced(opened))
    throw Error(ErrorKind::kIo, name, "the timeline cannot be written: the file holds something else",
                "a new or empty file, or a timeline");
  if (::ftruncate(opened, 0) != 0) throw failure(name, "the timeline cannot be written");
  owned.release();
  file = opened;
  path = name;
  offset = 0;
  first = true;
  block = kHead;
  begin = now();
  rows.clear();
  ++generation;
  add(process_name_text());
  flush();  // a disk that refuses says so at once
  if (file < 0) {
    trouble.clear();
    throw failure(name, "the timeline cannot be written");
  }
}

void Writer::add(std::string_view event) {
  block += first ? "\n" : ",\n";
  block += event;
  first = false;
  if (block.size() >= kBlock) flush();
}

void Writer::add_name(std::int64_t row, std::string_view words) { add(row_name_text(row, words)); }

void Writer::flush() {
  const std::size_t size = block.size();
  block += kEnd;
  std::string_view rest = block;
  std::int64_t at = offset;
  while (!rest.empty()) {
    const ssize_t n = ::pwrite(file, rest.data(), rest.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      trouble = failure(path, "the timeline ends here").what();
      // What was whole before is so again: its end lay where the block began.
      if (::pwrite(file, kEnd.data(), kEnd.size(), offset) == static_cast<ssize_t>(kEnd.size()))
        static_cast<void>(!::ftruncate(file, offset + static_cast<std::int64_t>(kEnd.size())));
      return close();
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
    at += n;
  }
  offset += static_cast<std::int64_t>(size);
  block.clear();
}

void Writer::close() {
  if (file >= 0) ::close(file);
  file = -1;
  block.clear();
  set_state();
}

// Does something with the writer, then tells of trouble: not under the lock, as a sink may record itself.
template <class Work>
void with_writer(const Work& work) {
  Writer& w = writer();
  std::unique_lock lock(w.mutex);
  work(w);
  if (w.trouble.empty()) return;
  const std::string trouble = std::exchange(w.trouble, {});
  lock.unlock();
  log(LogLevel::warn, trouble);
}

// What others held back is recorded; they record, so not under the lock.
void give_all() {
  std::vector<void (*)()> givers;
  with_writer([&](Writer& w) { givers = w.givers; });
  for (void (*const give)() : givers) give();
}

// For the devices; not under the lock either.
void wait_for_all() {
  std::vector<void (*)()> waiters;
  with_writer([&](Writer& w) { waiters = w.waiters; });
  for (void (*const wait)() : waiters) wait();
}

bool has_file() {
  Writer& w = writer();
  const std::lock_guard lock(w.mutex);
  return w.file >= 0;
}

void stop_now() {
  if (state.load(std::memory_order_relaxed) != State::on || !has_file()) return;
  give_all();
  with_writer([](Writer& w) {
    if (w.file < 0) return;
    w.flush();
    w.close();
  });
}

void prepare() {
  static const bool registered = [] {
    static_cast<void>(log_enabled(LogLevel::warn));  // the log outlives what may log at the end
    std::atexit(stop_now);
    // The text and the file are the parent's: a child records nothing until it starts its own.
    ::pthread_atfork([] { writer().mutex.lock(); }, [] { writer().mutex.unlock(); },
                     [] {
                       writer().collection.reset();
                       writer().close();
                       writer().mutex.unlock();
                     });
    return true;
  }();
  static_cast<void>(registered);
}

void start_now(const std::string& path) {
  prepare();
  stop_now();
  Writer& w = writer();
  const std::lock_guard lock(w.mutex);
  w.open(path);
  w.set_state();
}

// A span, on the row whose number `row_of` tells and names where it is new.
template <class RowOf>
void record_span(std::string_view category, std::string_view name, std::int64_t begin, std::int64_t end,
                 std::string_view details, std::string_view row_name, const RowOf& row_of) try {
  with_writer([&](Writer& w) {
    if (w.collection && w.collection->has_room(end)) {
      Collection& c = *w.collection;
      c.all.events.push_back(
          {c.number(row_name), c.number(category), c.number(name), c.number(details), begin, end});
    }
    if (w.file < 0) return;
    std::string event = span_text(category, name);
    const std::int64_t row = row_of(w);
    if (w.file < 0) return;  // its name was too much for the disk
    append_time(event, row, begin - w.begin, end - w.begin, details);
    w.add(event);
  });
} catch (...) {  // who records is often in a destructor: without memory a span is missing
  Writer& w = writer();
  const std::lock_guard lock(w.mutex);
  if (w.collection) w.collection->lose(end);
}

// "main", or the thread's own name and number.
const std::string& thread_name() {
  thread_local const std::string name = [] {
    char words[64] = "main";
    if (thread_number() == ::getpid()) return std::string(words);
    ::pthread_getname_np(::pthread_self(), words, sizeof words);
    return std::string(words);
  }();
  return name;
}
const std::string& thread_row() {
  thread_local const std::string row =
      thread_number() == ::getpid() ? thread_name() : fmt::format("{} {}", thread_name(), thread_number());
  return row;
}

}  // namespace

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool start_as_asked() {
  static std::once_flag once;
  std::call_once(once, [] {
    State unknown = State::unknown;
    const std::optional<std::string> path = env::text("SYSTOLE_TRACE");
    if (!path || state.load(std::memory_order_relaxed) != State::unknown) {
      state.compare_exchange_strong(unknown, State::off);
      return;
    }
    try {
      start_now(*path);
    } catch (const Error& error) {  // the run is what matters
      state.store(State::off, std::memory_order_relaxed);
      log(LogLevel::warn, error.what());
    }
  });
  return state.load(std::memory_order_relaxed) == State::on;
}

std::string details(std::initializer_list<Detail> pairs) {
  std::string text = "{";
  for (const auto& [name, value] : pairs) {
    if (const auto* words = std::get_if<std::string_view>(&value); words != nullptr && words->empty())
      continue;
    if (text.size() > 1) text += ',';
    append_quoted(text, name);
    text += ':';
    if (const auto* number = std::get_if<std::int64_t>(&value))
      text += std::to_string(*number);
    else
      append_quoted(text, std::get<std::string_view>(value));
  }
  return text + "}";
}

void record(std::string_view category, std::string_view name, std::int64_t begin, std::int64_t end,
            std::string_view details) {
  if (state.load(std::memory_order_relaxed) != State::on) return;
  record_span(category, name, begin, end, details, thread_row(), [](Writer& w) {
    thread_local std::uint64_t named = 0;  // the generation that knows this thread's name
    const std::int64_t thread = thread_number();
    if (std::exchange(named, w.generation) != w.generation) w.add_name(thread, thread_name());
    return thread;
  });
}

void record_on(std::string_view row, std::string_view category, std::string_view name, std::int64_t begin,
               std::int64_t end, std::string_view details) {
  if (state.load(std::memory_order_relaxed) != State::on) return;
  record_span(category, name, begin, end, details, row, [&](Writer& w) {
    if (const auto known = w.rows.find(row); known != w.rows.end()) return known->second;
    const std::int64_t number = kFirstRow + static_cast<std::int64_t>(w.rows.size());
    w.rows.emplace(row, number);
    w.add_name(number, row);
    return number;
  });
}

void record_copy(std::string_view what, std::string_view device, std::int64_t bytes,
                 std::int64_t begin) noexcept {
  try {
    record("copy", what, begin, now(), details({{"device", device}, {"work", what}, {"bytes", bytes}}));
  } catch (...) {  // without memory a copy is missing
  }
}

void level(std::string_view name, std::int64_t value) {
  if (state.load(std::memory_order_relaxed) != State::on) return;
  with_writer([&](Writer& w) {
    const std::int64_t at = now();
    if (w.collection && w.collection->has_room(at))
      w.collection->all.levels.push_back({w.collection->number(name), at, value});
    if (w.file >= 0) w.add(level_text(name, at - w.begin, value));
  });
}

namespace {

struct Usages {
  std::mutex mutex;
  std::vector<const Usage*> all;
  void show() {
    const std::lock_guard lock(mutex);
    for (const Usage* usage : all) usage->show();
  }
};

// Never destroyed: what uses memory may outlive what is static.
Usages& usages() {
  static Usages& instance = lasting<Usages>();
  return instance;
}

}  // namespace

Usage::Usage(std::string name, std::function<std::int64_t()> told)
    : name_(std::move(name)), told_(std::move(told)) {
  const std::lock_guard lock(usages().mutex);
  usages().all.push_back(this);
}

Usage::~Usage() {
  const std::lock_guard lock(usages().mutex);
  std::erase(usages().all, this);
}

void Usage::show(std::int64_t bytes) const noexcept {
  try {
    const std::int64_t told = told_ ? told_() : 0;
    level(name_, told > 0 ? told : bytes);
  } catch (...) {  // without memory a level is missing
  }
}

void start_collecting(std::int64_t most_events) {
  static_cast<void>(is_on());  // a timeline that is asked for begins first
  prepare();
  Writer& w = writer();
  std::unique_lock lock(w.mutex);
  if (w.collection)
    throw Error(ErrorKind::kInvalidArgument, "profiler", "another one records already", "one at a time");
  w.collection.emplace();
  w.collection->most = most_events;
  static_cast<void>(w.collection->number(""));  // no details
  w.collection->all.begin = now();
  w.set_state();
  lock.unlock();
  usages().show();
}

void restart_collecting() {
  wait_for_all();
  with_writer([](Writer& w) {
    if (!w.collection) return;
    w.collection->all.events.clear();
    w.collection->all.levels.clear();
    w.collection->all.lost = 0;
    w.collection->all.lost_from = std::numeric_limits<std::int64_t>::max();
    w.collection->all.begin = now();
  });
  usages().show();
}

Collected stop_collecting() {
  wait_for_all();
  const std::int64_t end = now();
  give_all();
  std::optional<Collection> collection;
  with_writer([&](Writer& w) {
    collection = std::exchange(w.collection, std::nullopt);
    w.set_state();
  });
  if (!collection)
    throw Error(ErrorKind::kInvalidArgument, "profiler", "nothing is recorded in this process",
                "a recording of its own: one of its parent's is not continued");
  collection->all.end = end;
  return std::move(collection->all);
}

namespace {

// Up to when there are at most so many; of equal times all.
template <class Item, class Time>
std::int64_t last_of_first(const std::vector<Item>& items, std::size_t most, const Time& time) {
  if (items.size() <= most) return std::numeric_limits<std::int64_t>::max();
  if (most == 0) return std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> times;
  times.reserve(items.size());
  for (const Item& item : items) times.push_back(time(item));
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(most - 1);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

}  // namespace

void write_trace(const Collected& collected, const std::string& path, std::size_t most) {
  const auto begin_of = [](const Collected::Event& event) { return event.begin; };
  const auto time_of = [](const Collected::Level& level) { return level.at; };
  const std::int64_t last = std::min(last_of_first(collected.events, most, begin_of),
                                     last_of_first(collected.levels, most, time_of));
  const auto late = [&](const auto& all, const auto& time) {
    return std::count_if(all.begin(), all.end(), [&](const auto& each) { return time(each) > last; });
  };
  std::string text = R"({"displayTimeUnit":"ms",)";
  if (const std::int64_t out = late(collected.events, begin_of) + late(collected.levels, time_of); out > 0)
    text += fmt::format(R"("otherData":{{"left_out":{},"from_us":{:.3f}}},)", out,
                        static_cast<double>(last - collected.begin) / 1e3);
  text += R"("traceEvents":[)";
  text += "\n" + process_name_text();
  std::map<std::uint32_t, std::int64_t> rows;
  for (const Collected::Event& event : collected.events)
    if (const auto [at, is_new] = rows.try_emplace(event.row, kFirstRow + std::ssize(rows)); is_new)
      text += ",\n" + row_name_text(at->second, collected.texts[event.row]);
  for (const Collected::Event& event : collected.events) {
    if (event.begin > last) continue;
    text += ",\n" + span_text(collected.texts[event.category], collected.texts[event.name]);
    append_time(text, rows.at(event.row), event.begin - collected.begin, event.end - collected.begin,
                collected.texts[event.details]);
  }
  for (const Collected::Level& level : collected.levels)
    if (level.at <= last)
      text += ",\n" + level_text(collected.texts[level.name], level.at - collected.begin, level.value);
  text += kEnd;
  write_file(path, std::as_bytes(std::span(text)));
}

void wait_by(void (*wait)()) {
  with_writer([&](Writer& w) {
    if (std::find(w.waiters.begin(), w.waiters.end(), wait) == w.waiters.end()) w.waiters.push_back(wait);
  });
}

void before_stop(void (*give)()) {
  with_writer([&](Writer& w) {
    if (std::find(w.givers.begin(), w.givers.end(), give) == w.givers.end()) w.givers.push_back(give);
  });
}

}  // namespace systole::timeline

namespace systole {

void Timeline::start(const std::string& path) { timeline::start_now(path); }

void Timeline::stop() { timeline::stop_now(); }

bool Timeline::is_running() { return timeline::is_on() && timeline::has_file(); }

Timeline::Scope::Scope(std::string_view name) {
  if (nvtx::is_on()) {
    nvtx::push(name);
    is_range_ = true;
  }
  if (!timeline::is_on()) return;
  name_ = name;
  begin_ = timeline::now();
}

Timeline::Scope::~Scope() {
  if (begin_ >= 0) timeline::record("user", name_, begin_, timeline::now());
  if (is_range_) nvtx::pop();
}

}  // namespace systole
