// One graph for any size from graphs of two sizes. Apart from model_file.cpp, which reads files and is fuzzed
// without the passes that this needs.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"
#include "systole/ir/text.h"
#include "train/model_file.h"

namespace systole::training {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The text up to its next number, which is given as `number` and `digits`; −1 at the end. Digits inside a
// name, a fraction or the number of a value (%12) do not count.
std::string_view up_to_number(std::string_view& text, std::int64_t& number, std::string_view& digits) {
  const auto is_word = [](char c) {
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '.' || c == '%' ||
           c == '$';
  };
  number = -1;
  std::size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '"') {  // a name or text in quotes
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      ++i;
      continue;
    }
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const auto [next, error] = std::from_chars(text.data() + i, text.data() + end, number);
    if (is_digit(text[i]) && error == std::errc() && next == text.data() + end) {
      const std::string_view before = text.substr(0, i);
      digits = text.substr(i, end - i);
      text.remove_prefix(end);
      return before;
    }
    number = -1;
    i = end;
  }
  const std::string_view rest = text;
  text = {};
  return rest;
}

// What numbers are at the sizes that the symbols have: scale · product of symbols + offset.
struct Fit {
  std::int64_t scale = 0, offset = 0;
  std::vector<int> powers;  // of each symbol

  std::optional<std::int64_t> at(const std::vector<std::int64_t>& sizes) const {
    std::int64_t value = scale;
    for (std::size_t k = 0; k < sizes.size(); ++k)
      for (int i = 0; i < powers[k]; ++i)
        if (__builtin_mul_overflow(value, sizes[k], &value)) return std::nullopt;
    if (__builtin_add_overflow(value, offset, &value)) return std::nullopt;
    return value;
  }
  std::string text(std::span<const std::string> symbols) const {
    std::string product;
    for (std::size_t k = 0; k < symbols.size(); ++k)
      for (int i = 0; i < powers[k]; ++i) product += "*" + symbols[k];
    return fmt::format("{}{}", scale, product) + (offset == 0 ? "" : fmt::format("{:+}", offset));
  }
};

// The simplest one that gives every number; nothing when none does.
std::optional<Fit> fitted(std::span<const std::int64_t> numbers, std::span<const Sized> graphs) {
  constexpr int kMaxPower = 3;
  const std::size_t count = graphs[0].sizes.size();
  std::optional<Fit> best;
  int least = std::numeric_limits<int>::max();
  Fit fit{1, 0, std::vector<int>(count, 0)};
  const auto next = [&] {  // the next product of symbols, like a number's next digits
    for (int& power : fit.powers) {
      if (++power <= kMaxPower) return true;
      power = 0;
    }
    return false;
  };
  while (next()) {
    const int degree = std::accumulate(fit.powers.begin(), fit.powers.end(), 0);
    if (degree >= least) continue;
    fit.scale = 1;
    fit.offset = 0;
    const std::optional<std::int64_t> first = fit.at(graphs[0].sizes), last = fit.at(graphs.back().sizes);
    if (!first || !last || *first == *last) continue;
    const std::int64_t change = numbers.back() - numbers[0];
    if (change % (*last - *first) != 0) continue;
    fit.scale = change / (*last - *first);
    std::int64_t part = 0;
    if (fit.scale == 0 || __builtin_mul_overflow(fit.scale, *first, &part)) continue;
    fit.offset = numbers[0] - part;
    bool fits = true;
    for (std::size_t i = 0; i < graphs.size(); ++i) fits = fits && fit.at(graphs[i].sizes) == numbers[i];
    if (!fits) continue;
    best = fit;
    least = degree;
  }
  return best;
}

constexpr std::string_view kConstant = "constant() {value=";

// A slice counted from the end (x[-1]) has another start for each size. Of the axis turned around it is the
// same for all.
void count_from_the_end(std::vector<ir::Graph>& graphs) {
  const ir::Graph& model = graphs[0];
  for (const ir::Graph& graph : graphs)
    if (graph.size() != model.size()) return;  // refused later
  std::map<std::int32_t, Ints> turned;         // the axes of a node
  for (std::int32_t i = 0; i < model.size(); ++i) {
    if (std::any_of(graphs.begin(), graphs.end(),
                    [&](const ir::Graph& g) { return g.node(i).op != ir::Op::slice; }))
      continue;
    const auto& first = model.node(i).as<ir::SliceAttrs>();
    Ints axes;
    for (std::size_t axis = 0; axis < first.starts.size(); ++axis)
      if (std::any_of(graphs.begin(), graphs.end(), [&](const ir::Graph& g) {
            const auto& other = g.node(i).as<ir::SliceAttrs>();
            return axis < other.starts.size() && other.starts[axis] != first.starts[axis];
          }))
        axes.push_back(static_cast<std::int64_t>(axis));
    if (!axes.empty()) turned.emplace(i, std::move(axes));
  }
  if (turned.empty()) return;
  for (ir::Graph& graph : graphs)
    graph = ir::rewrite(
        graph,
        [&](const ir::Rewrite& at) -> std::optional<ir::Values> {
          const auto found = &at.old_graph == &graph ? turned.find(at.index) : turned.end();
          if (found == turned.end()) return std::nullopt;
          ir::SliceAttrs part = at.node.as<ir::SliceAttrs>();
          const Shape& shape = at.operands[0].shape();
          for (const std::int64_t axis : found->second) {
            const auto k = static_cast<std::size_t>(axis);
            const std::int64_t start = part.starts[k];
            if (part.strides[k] != 1) return std::nullopt;
            part.starts[k] = shape[k].value() - part.limits[k].value();
            part.limits[k] = shape[k].value() - start;
          }
          const ir::AxesAttrs axes{found->second};
          const ir::Value x = at.graph.add(ir::Op::reverse, {at.operands[0]}, axes);
          return ir::Values{at.graph.add(ir::Op::reverse, {at.graph.add(ir::Op::slice, {x}, part)}, axes)};
        },
        {.subgraphs = false});
}

}  // namespace

bool same_work(const ir::Graph& a, const ir::Graph& b) {
  const auto simplified = [](const ir::Graph& graph) {
    return passes::run_passes(graph, passes::standard_passes());
  };
  return a.same_structure(b) || simplified(a).same_structure(simplified(b));
}

ir::Graph generalized(std::span<const std::string> symbols, std::span<const Sized> given) {
  const auto refuse = [](std::string message, std::string expected = {}, std::string got = {}) {
    throw Error(ErrorKind::kUnsupported, "save", std::move(message), std::move(expected), std::move(got));
  };
  const auto sizes_text = [&](const Sized& sized) {
    std::string text;
    for (std::size_t k = 0; k < symbols.size(); ++k)
      text += fmt::format("{}{} = {}", k == 0 ? "" : ", ", symbols[k], sized.sizes[k]);
    return text;
  };
  constexpr const char* kDifferent = "the model does different things for different sizes of its inputs";
  std::vector<ir::Graph> graphs;
  for (const Sized& sized : given) graphs.push_back(sized.graph);
  count_from_the_end(graphs);
  std::vector<std::string> texts;
  for (const ir::Graph& graph : graphs) texts.push_back(ir::print(graph, {.debug_info = false}));
  std::vector<std::string_view> rest(texts.begin(), texts.end());
  std::string general;
  while (std::any_of(rest.begin(), rest.end(), [](std::string_view text) { return !text.empty(); })) {
    std::vector<std::int64_t> numbers(rest.size());
    std::string_view digits, others;
    const std::string_view between = up_to_number(rest[0], numbers[0], digits);
    for (std::size_t i = 1; i < rest.size(); ++i)
      if (up_to_number(rest[i], numbers[i], others) != between || (numbers[i] < 0) != (numbers[0] < 0))
        refuse(kDifferent);
    general += between;
    if (numbers[0] < 0) continue;
    if (std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t n) { return n == numbers[0]; })) {
      general += digits;
      continue;
    }
    const std::optional<Fit> fit = fitted(numbers, given);
    if (!fit) {
      const std::size_t other = static_cast<std::size_t>(
          std::find_if(numbers.begin(), numbers.end(), [&](auto n) { return n != numbers[0]; }) -
          numbers.begin());
      refuse("a number in the graph does not grow evenly with the sizes of the inputs", {},
             fmt::format("{} for {}, {} for {}", numbers[0], sizes_text(given[0]), numbers[other],
                         sizes_text(given[other])));
    }
    // A size as a number of the computation, which an op gives: constant() {value=f32[](61)}.
    const std::size_t at = general.rfind(kConstant);
    const bool is_literal =
        at != general.npos && general.ends_with("[](") &&
        general.find_first_of(")}", at + kConstant.size()) == general.npos &&
        std::all_of(rest.begin(), rest.end(), [](auto text) { return text.starts_with(")}"); });
    if (!is_literal) {
      general += fit->text(symbols);
      continue;
    }
    const std::size_t dtype = at + kConstant.size();
    const std::string name = general.substr(dtype, general.size() - 3 - dtype);  // without "[]("
    general.resize(at);
    general += fmt::format("dimension() {{dim={}, dtype={}", fit->text(symbols), name);
    for (std::string_view& text : rest) text.remove_prefix(1);
  }
  try {
    ir::Graph graph = ir::parse(general, "save");
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      SymbolValues values;
      for (std::size_t k = 0; k < symbols.size(); ++k) values.set(symbols[k], given[i].sizes[k]);
      if (!same_work(ir::bind_symbols(graph, values), graphs[i]))
        refuse(kDifferent, {}, sizes_text(given[i]));
    }
    return graph;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) throw;
    refuse(fmt::format("no graph for every size: {}", error.what()));
    throw;  // not reached
  }
}

}  // namespace systole::training
