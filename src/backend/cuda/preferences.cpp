#include "backend/cuda/preferences.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/env.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

// What is taken where nobody is asked.
constexpr std::array<Preferred, 8> kChoices{{{"cudnn.pooling", false},
                                             {"cudnn.few_channels", false},
                                             {"cudnn.batch_norm", false},
                                             {"cudnn.rnn", true},
                                             {"cudnn.rnn_grad", false},
                                             {"systole.lstm", true},
                                             {"cublasLt", false},
                                             {"early_launch", true}}};

// "a, b or c".
std::string all_names() {
  std::string text;
  for (std::size_t i = 0; i < kChoices.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < kChoices.size() ? ", " : " or ", kChoices[i].name);
  return text;
}

}  // namespace

bool can_be_preferred(std::string_view name) {
  return std::any_of(kChoices.begin(), kChoices.end(),
                     [&](const Preferred& each) { return each.name == name; });
}

Preferred preferred(std::string_view name) {
  auto all = kChoices;
  const auto find = [&](std::string_view word) {
    return std::find_if(all.begin(), all.end(), [&](const Preferred& each) { return each.name == word; });
  };
  const std::string list = env::text(kPrefer).value_or("");
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string_view word = std::string_view(list).substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const bool is_against = word.front() == '-';
    if (is_against) word.remove_prefix(1);
    const auto found = find(word);
    if (found == all.end())
      throw Error(ErrorKind::kInvalidArgument, kPrefer, "names nothing that could be preferred",
                  fmt::format("{}, - before one that is not wanted", all_names()), std::string(word));
    found->is_taken = !is_against;
    found->is_asked_for = true;
  }
  return *find(name);
}

}  // namespace systole::cuda
