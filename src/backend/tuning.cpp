#include "backend/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "base/env.h"
#include "base/log.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"

namespace systole::tuning {

namespace {

constexpr double kClearlyBetter = 0.98;  // of the first's time: noise changes nothing
constexpr double kPatience = 50;         // runs of the best that may be spent on top of the limit
constexpr double kNever = std::numeric_limits<double>::infinity();

// The answers of this process. Measuring one thing at a time keeps the others' work out of the numbers.
struct Known {
  std::mutex mutex;
  std::map<std::string, Answer> answers;
  std::mutex measuring;
};
Known& known() {
  static Known* const all = new Known;  // never destroyed: threads may still compile
  return *all;
}

struct Entry {
  std::string text;  // in the process
  runtime::CacheKey key;
};

Entry entry_of(const Device& device, const Question& question) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}", device.description, question.name, question.details, question.count);
  runtime::CacheKey key(device.backend + "-tuning");
  key.add("2").add(text);  // the first is this format's version
  return {device.backend + "\n" + text, key};
}

// "1 0.000214 0.000239 0.000239 0.000214"
std::string written(const Answer& answer) {
  std::string text = fmt::format("{} {} {}", answer.choice, answer.seconds, answer.first_seconds);
  for (const double time : answer.times) text += fmt::format(" {}", time);
  return text;
}
std::optional<Answer> read(const std::string& text, int count) {
  Answer answer;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&](auto& value) {
    while (at < end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc();
  };
  bool is_right = number(answer.choice) && number(answer.seconds) && number(answer.first_seconds);
  while (is_right && at != end) is_right = number(answer.times.emplace_back());
  if (!is_right || answer.choice < 0 || answer.choice >= count ||
      answer.times.size() > static_cast<std::size_t>(count))
    return std::nullopt;
  return answer;
}

std::optional<Answer> stored(const Entry& entry, const Question& question) {
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (!cache) return std::nullopt;
  const std::optional<std::string> text = cache->find(entry.key);
  if (!text) return std::nullopt;
  std::optional<Answer> answer = read(*text, question.count);
  if (!answer) cache->remove(entry.key);
  return answer;
}

Answer kept(const Entry& entry, const Answer& answer) {
  const std::lock_guard lock(known().mutex);
  return known().answers.try_emplace(entry.text, answer).first->second;
}

std::optional<Answer> remembered(const Entry& entry, const Question& question) {
  {
    const std::lock_guard lock(known().mutex);
    if (const auto found = known().answers.find(entry.text); found != known().answers.end())
      return found->second;
  }
  const std::optional<Answer> answer = stored(entry, question);
  return answer ? std::optional(kept(entry, *answer)) : std::nullopt;
}

// Or another process's answer, which was written meanwhile.
Answer remember(const Entry& entry, const Question& question, const Answer& answer) {
  if (const std::optional<Answer> other = stored(entry, question)) return kept(entry, *other);
  if (const std::optional<runtime::DiskCache> cache = runtime::disk_cache())
    cache->store(entry.key, written(answer));
  return kept(entry, answer);
}

bool is_open(const Question& question) {
  const int least = question.wants_time ? 1 : 2;
  return question.count >= least && question.is_measured && env::flag("SYSTOLE_TUNE", true);
}

}  // namespace

Answer tuned(const Device& device, const Question& question, const Measure& measure) {
  if (!is_open(question)) return {};
  const Entry entry = entry_of(device, question);
  if (std::optional<Answer> answer = remembered(entry, question)) return *std::move(answer);
  const std::lock_guard lock(known().measuring);
  if (std::optional<Answer> answer = remembered(entry, question)) return *std::move(answer);  // meanwhile
  const auto begin = std::chrono::steady_clock::now();
  Answer answer;
  std::vector<double>& times = answer.times;
  double best = kNever;
  for (int choice = 0; choice < question.count; ++choice) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (choice > 0 && spent.count() > question.most_seconds + kPatience * best) break;
    double time = kNever;
    try {
      time = measure(choice, best);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kContextLost) throw;
      log(LogLevel::info, fmt::format("{}: {}: {} {} fails: {}", device.backend, question.name,
                                      question.choice, choice, error.what()));
      if (error.kind() == ErrorKind::kOutOfMemory) return {};
    }
    if (std::isnan(time)) return remember(entry, question, {});
    times.push_back(time);
    best = std::min(best, time);
  }
  if (best == kNever) return {};
  answer.choice = static_cast<int>(std::min_element(times.begin(), times.end()) - times.begin());
  if (times[0] * kClearlyBetter <= best) answer.choice = 0;
  answer.seconds = times[static_cast<std::size_t>(answer.choice)];
  answer.first_seconds = std::isinf(times[0]) ? 0 : times[0];
  log(LogLevel::info, fmt::format("{}: {}: {} {} of {}, {:.4g} ms, first {:.4g} ms", device.backend,
                                  question.name, question.choice, answer.choice, question.count,
                                  1e3 * answer.seconds, 1e3 * answer.first_seconds));
  return remember(entry, question, answer);
}

std::optional<Answer> known_answer(const Device& device, const Question& question) {
  if (!is_open(question)) return Answer{};
  return remembered(entry_of(device, question), question);
}

std::string choices() {
  const std::lock_guard lock(known().mutex);
  std::string text;
  for (const auto& [question, answer] : known().answers) {
    for (const char c : question) text += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
    text += "\t" + written(answer) + "\n";
  }
  return text;
}

void set_choices(std::string_view text, std::string_view where) {
  std::map<std::string, Answer> answers;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t tab = line.rfind('\t');
    std::string question;
    for (std::size_t i = 0; tab != line.npos && i < tab; ++i) {
      const bool escaped = line[i] == '\\' && i + 1 < tab;
      question += !escaped ? line[i] : line[++i] == 'n' ? '\n' : line[i];
    }
    // The last line of a question is its number of choices.
    int count = 0;
    const std::size_t last = question.rfind('\n');
    if (last != question.npos)
      std::from_chars(question.data() + last + 1, question.data() + question.size(), count);
    const std::optional<Answer> answer =
        count > 0 ? read(std::string(line.substr(tab + 1)), count) : std::nullopt;
    if (!answer)
      throw Error(ErrorKind::kParse, std::string(where), fmt::format("choices of kernels, line {}", number),
                  "a question and its answer");
    answers.insert_or_assign(std::move(question), *answer);
  }
  const std::lock_guard lock(known().mutex);
  for (auto& [question, answer] : answers) known().answers.insert_or_assign(question, answer);
}

Answer settled(const Device& device, const Question& question) {
  if (!is_open(question)) return {};
  const Entry entry = entry_of(device, question);
  if (std::optional<Answer> answer = remembered(entry, question)) return *std::move(answer);
  return remember(entry, question, {});
}

}  // namespace systole::tuning
