#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/printable.h"

namespace systole::training {

namespace {

constexpr std::chrono::milliseconds kBetweenDrawings{100};
constexpr int kBar = 24;

// The columns of the terminal on standard output; 0 when it is none.
int terminal_width() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  if (const char* term = std::getenv("TERM"); term != nullptr && std::string_view(term) == "dumb") return 0;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// Full cells, then a half one.
std::string bar_text(double part) {
  const int halves = static_cast<int>(part * 2 * kBar);
  std::string text;
  for (int i = 0; i < halves / 2; ++i) text += "━";
  if (halves % 2 != 0) text += "╸";
  for (int i = (halves + 1) / 2; i < kBar; ++i) text += " ";
  return text;
}

// The first `columns` characters, where every UTF-8 character is one column wide.
std::string cut(std::string_view text, int columns) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80 && ++seen > columns)
      return std::string(text.substr(0, i));
  return std::string(text);
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string rate_text(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f}M/s", per_second / 1e6);
  if (per_second >= 1e4) return fmt::format("{:.0f}k/s", per_second / 1e3);
  if (per_second >= 1e3) return fmt::format("{:.1f}k/s", per_second / 1e3);
  return fmt::format("{:.{}f}/s", per_second, per_second < 10 ? 1 : 0);
}

Progress::Progress(int verbose, std::ostream* out, std::int64_t epochs)
    : verbose_(verbose), out_(out == nullptr ? std::cout : *out), epochs_(epochs) {
  if (verbose_ == 1 && &out_ == &std::cout) {
    width_ = terminal_width();
    bar_ = width_ > 0;
  }
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::begin_epoch(std::int64_t epoch, std::int64_t steps, std::int64_t done) {
  epoch_ = epoch;
  steps_ = steps;
  done_ = first_ = done;
  start_ = Clock::now();
  drawn_ = {};
  if (bar_) draw(0, {});
}

void Progress::update(std::int64_t done, std::int64_t samples, const Logs& logs) {
  done_ = done;
  if (!bar_ || Clock::now() - drawn_ < kBetweenDrawings) return;
  draw(samples, logs);
}

void Progress::draw(std::int64_t samples, const Logs& logs) {
  drawn_ = Clock::now();
  const double part = steps_ > 0 ? static_cast<double>(done_) / static_cast<double>(steps_) : 1;
  const double took = seconds();
  std::string line = fmt::format("epoch {}/{}  {}  {}/{}", epoch_, epochs_, bar_text(part), done_, steps_);
  if (done_ > first_ && took > 0) {
    const double left = took * static_cast<double>(steps_ - done_) / static_cast<double>(done_ - first_);
    line += fmt::format("  {}  {} left", rate_text(static_cast<double>(samples) / took), duration_text(left));
  }
  if (!logs.empty()) line += "  " + printable(logs.to_string());
  out_ << "\r\x1b[2K" << cut(line, width_ - 1) << std::flush;
  on_screen_ = true;
}

void Progress::clear() {
  if (on_screen_) out_ << "\r\x1b[2K";
  on_screen_ = false;
}

void Progress::end_epoch(const Logs& logs, std::int64_t samples) {
  if (verbose_ == 0) return;
  clear();
  const double took = seconds();
  std::string line = fmt::format("epoch {}/{}  {}", epoch_, epochs_, duration_text(took));
  if (took > 0 && samples > 0) line += fmt::format("  {}", rate_text(static_cast<double>(samples) / took));
  out_ << line << "  " << printable(logs.to_string()) << std::endl;
}

void Progress::say(std::string_view line) {
  if (verbose_ == 0) return;
  clear();
  out_ << printable(line) << std::endl;  // it may name a folder or a metric of a file
}

}  // namespace systole::training
