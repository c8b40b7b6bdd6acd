#include "agreement.h"

#include <cmath>
#include <cstdlib>
#include <regex>
#include <sstream>

namespace systole::docs {

namespace {

// Times and speeds become "#", spaces one, those at the ends none.
std::string plain(const std::string& line) {
  static const std::regex timed(
      R"(\b\d[\d.,]*(e[-+]?\d+)? ?(s|ms|µs|us|ns|min|h|[kMGT]?(/s|B/s|iB/s|FLOP/s| samples/s| [a-z]+/s))(?![\w/]))");
  std::string text = std::regex_replace(line, timed, "#"), result;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\r';
    if (!space)
      result += c;
    else if (!result.empty() && result.back() != ' ')
      result += ' ';
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

constexpr const char* kNumber = R"([-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)";

// What a line is searched by, and the numbers that it shows, in the order of the expression's groups.
struct Expected {
  std::string expression;
  std::vector<double> numbers;
};

Expected expected(const std::string& line, Numbers how) {
  static const std::regex number(kNumber);
  static const std::string dots = "…";
  Expected result;
  for (std::size_t at = 0; at < line.size();) {
    if (line.compare(at, dots.size(), dots) == 0) {
      result.expression += ".*";
      at += dots.size();
      continue;
    }
    std::smatch found;
    const bool in_word =
        at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) || line[at - 1] == '_');
    if ((how.are_any || how.within > 0) && !in_word &&
        std::regex_search(line.cbegin() + static_cast<std::ptrdiff_t>(at), line.cend(), found, number,
                          std::regex_constants::match_continuous)) {
      const std::string text = found.str();
      at += text.size();
      if (how.are_any || text.find('.') != std::string::npos) {
        result.expression += std::string("(") + kNumber + ")";
        result.numbers.push_back(std::strtod(text.c_str(), nullptr));
      } else {
        result.expression += text[0] == '+' ? "\\" + text : text;
      }
      continue;
    }
    if (std::string("\\^$.|?*+()[]{}").find(line[at]) != std::string::npos) result.expression += '\\';
    result.expression += line[at++];
  }
  return result;
}

}  // namespace

Numbers numbers_that_vary(const std::string& limited) {
  if (limited.empty()) return {.are_any = true};
  return {.within = std::strtod(limited.substr(limited.find_first_of("0123456789")).c_str(), nullptr) / 100};
}

bool line_agrees(const std::string& shown, const std::string& printed, Numbers how) {
  const Expected wanted = expected(plain(shown), how);
  const std::string line = plain(printed);
  std::smatch found;
  if (!std::regex_match(line, found, std::regex(wanted.expression))) return false;
  if (how.are_any) return true;
  for (std::size_t i = 0; i < wanted.numbers.size(); ++i) {
    const double number = std::strtod(found[i + 1].str().c_str(), nullptr);
    if (!(std::abs(number - wanted.numbers[i]) <= how.within * std::abs(wanted.numbers[i]))) return false;
  }
  return true;
}

bool lines_agree(const std::vector<std::string>& shown, const std::vector<std::string>& printed,
                 Numbers how) {
  // fits[j]: the shown lines from i on agree with the printed ones from j on.
  std::vector<bool> fits(printed.size() + 1, false);
  fits[printed.size()] = true;
  for (std::size_t i = shown.size(); i-- > 0;) {
    std::vector<bool> before(printed.size() + 1, false);
    const bool any = plain(shown[i]) == "…";
    for (std::size_t j = printed.size() + 1; j-- > 0;)
      before[j] = any ? fits[j] || (j < printed.size() && before[j + 1])
                      : j < printed.size() && fits[j + 1] && line_agrees(shown[i], printed[j], how);
    fits = before;
  }
  return fits[0];
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!plain(line).empty()) lines.push_back(line);
  return lines;
}

}  // namespace systole::docs
