#include "nn/words.h"

#include <fmt/format.h>

#include "base/nearest.h"

namespace systole::nn {

void unknown_word(std::string where, std::string_view kind, std::string_view word,
                  std::span<const std::string_view> known) {
  const std::string_view meant = nearest(word, known);
  throw Error(ErrorKind::kNotFound, std::move(where),
              fmt::format("no {} \"{}\"{}", kind, word,
                          meant.empty() ? "" : fmt::format("; did you mean \"{}\"?", meant)),
              known.empty() ? "none" : fmt::format("one of {}", fmt::join(known, ", ")), std::string(word));
}

void unknown_word(std::string where, std::string_view kind, std::string_view word,
                  const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  unknown_word(std::move(where), kind, word, std::span<const std::string_view>(views));
}

}  // namespace systole::nn
