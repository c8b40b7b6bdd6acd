#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <system_error>

#include "base/file.h"
#include "base/printable.h"
#include "data/set_files.h"
#include "systole/base/error.h"

namespace systole::cli {

namespace {

[[noreturn]] void output_failed(int code) {
  throw Error(ErrorKind::kIo, "standard output", "cannot write: " + std::generic_category().message(code));
}

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && errno != EPIPE) output_failed(errno);
}

// What stands for a colour until put() writes it, followed by two digits. A text from a file cannot know it.
constexpr std::size_t kColourDigits = 2;
const std::string& colour_mark() {
  static const std::string mark = [] {
    std::random_device device;
    return fmt::format("\x1b{:08x}{:08x}", device(), device());
  }();
  return mark;
}

}  // namespace

void put(std::string_view text) {
  const std::string& mark = colour_mark();
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(mark, at), text.size());
    shown += printable(text.substr(at, end - at), Lines::keep);
    at = end;
    if (at == text.size()) break;
    shown += fmt::format("\x1b[{}m", text.substr(at + mark.size(), kColourDigits));
    at += mark.size() + kColourDigits;
  }
  write_out(shown);
}

void put_data(std::string_view text) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  if (is_terminal)
    put(text);
  else
    write_out(text);
}

void flush_output() {
  if (std::fflush(stdout) != 0 && errno != EPIPE) output_failed(errno);
}

std::string read_text(const std::string& file) {
  const bool is_stream = file == "-";
  std::string text = is_stream ? read_text_stream(STDIN_FILENO, "standard input") : read_text_file(file);
  data::require_utf8(text, is_stream ? "<stdin>" : file, "");
  return text;
}

int terminal_width() {
  constexpr int kNarrowest = 40, kDefault = 100;
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && std::atoi(columns) > 0)
    return std::max(std::atoi(columns), kNarrowest);
  // Piped into a pager, the terminal is still at the other ends.
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO, STDIN_FILENO})
    if (winsize size{}; ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
      return std::max<int>(size.ws_col, kNarrowest);
  return kDefault;
}

std::string coloured(Colour colour, std::string_view text) {
  static const bool on = ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  if (!on) return std::string(text);
  const int code = colour == Colour::red      ? 31
                   : colour == Colour::yellow ? 33
                   : colour == Colour::green  ? 32
                                              : 1;
  return fmt::format("{0}{1:02}{2}{0}00", colour_mark(), code, text);
}

std::vector<std::string> wrapped(std::string_view text, int width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, blank);
    if (!lines.back().empty() && columns(lines.back()) + 1 + columns(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    text.remove_prefix(std::min(blank + 1, text.size()));
  }
  return lines;
}

int columns(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(std::string_view text, int width) {
  return std::string(text) + std::string(static_cast<std::size_t>(std::max(width - columns(text), 0)), ' ');
}

std::string size_text(double bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, units[unit]);
}

}  // namespace systole::cli
