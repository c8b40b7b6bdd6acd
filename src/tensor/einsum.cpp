// einsum. Every axis has a label: its letter, or its distance from the last axis under an ellipsis. Operands
// are joined from left to right; a label is summed as soon as no later operand and not the result has it.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;

namespace {

using Label = int;  // a letter's code; kEllipsis + distance from the end
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 1000;

bool contains(const Labels& labels, Label l) {
  return std::find(labels.begin(), labels.end(), l) != labels.end();
}

struct Term {
  Tensor x;
  Labels labels;  // one per axis
};

class Einsum {
 public:
  Einsum(std::string_view formula, std::span<const Tensor> operands) : formula_(formula) {
    std::string text;
    std::copy_if(formula.begin(), formula.end(), std::back_inserter(text), [](char c) { return c != ' '; });
    const std::size_t arrow = text.find("->");
    const std::string_view inputs = std::string_view(text).substr(0, arrow);
    read_inputs(inputs, operands);
    if (arrow == std::string::npos)
      implicit_output();
    else
      explicit_output(std::string_view(text).substr(arrow + 2));
    drop_stretched_axes();
  }

  Tensor run() {
    for (std::size_t i = 0; i < terms_.size(); ++i) terms_[i] = without_lone_labels(terms_[i], i, i);
    Term joined = terms_[0];
    for (std::size_t i = 1; i < terms_.size(); ++i) joined = join(joined, terms_[i], i);
    return arranged(without_lone_labels(joined, 0, terms_.size() - 1));
  }

 private:
  [[noreturn]] void fail(std::string message, std::string expected = {}, std::string got = {}) const {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("einsum \"{}\"", formula_), std::move(message),
                std::move(expected), std::move(got));
  }

  // The labels of one operand; `ellipsis` is how many axes the dots stand for.
  Labels parse(std::string_view text, int ellipsis) const {
    Labels labels;
    bool dots = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '.') {
        if (text.substr(i, 3) != "..." || dots) fail("dots that are no single ellipsis", "\"...\"");
        dots = true;
        i += 2;
        for (int d = ellipsis; d-- > 0;) labels.push_back(kEllipsis + d);
      } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        labels.push_back(c);
      } else {
        fail("a character that names no axis", "letters, \",\", \"->\" and \"...\"", std::string(1, c));
      }
    }
    return labels;
  }

  void read_inputs(std::string_view text, std::span<const Tensor> operands) {
    const std::vector<Tensor> same = promoted(operands, "einsum");
    std::size_t start = 0;
    for (std::size_t i = 0;; ++i) {
      const std::size_t comma = text.find(',', start);
      const std::string_view part = text.substr(start, comma - start);
      if (i >= same.size()) fail("more terms than operands", {}, std::to_string(same.size()));
      const auto letters = static_cast<int>(parse(part, 0).size());
      const bool dots = part.find('.') != std::string_view::npos;
      const int rank = same[i].rank();
      if (dots ? letters > rank : letters != rank)
        throw Error(ErrorKind::kShape, fmt::format("einsum \"{}\"", formula_),
                    fmt::format("operand {} has another number of axes than its term", i),
                    fmt::format("{}{}", letters, dots ? " or more" : ""), same[i].type().to_string());
      widest_ = std::max(widest_, dots ? rank - letters : 0);
      add_term(same[i], parse(part, rank - letters));
      if (comma == std::string_view::npos) {
        if (i + 1 != same.size()) fail("fewer terms than operands", {}, std::to_string(same.size()));
        return;
      }
      start = comma + 1;
    }
  }

  void add_term(const Tensor& x, const Labels& labels) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const Dim size = x.shape()[i];
      auto [it, fresh] = sizes_.emplace(labels[i], size);
      if (!fresh && it->second == Dim(1)) it->second = size;
      if (it->second != size && size != Dim(1))
        throw Error(ErrorKind::kShape, fmt::format("einsum \"{}\"", formula_),
                    labels[i] < kEllipsis
                        ? fmt::format("axes '{}' of different sizes", static_cast<char>(labels[i]))
                        : std::string("axes under \"...\" of different sizes"),
                    it->second.to_string(), x.type().to_string());
      ++uses_[labels[i]];
    }
    terms_.push_back({x, labels});
  }

  void implicit_output() {
    for (int d = widest_; d-- > 0;) output_.push_back(kEllipsis + d);
    for (const auto& [label, count] : uses_)  // in the order of the letters
      if (label < kEllipsis && count == 1) output_.push_back(label);
  }

  void explicit_output(std::string_view text) {
    output_ = parse(text, widest_);
    for (std::size_t i = 0; i < output_.size(); ++i) {
      const std::string letter(1, static_cast<char>(output_[i]));
      if (!sizes_.contains(output_[i])) fail("the result names an axis that no operand has", {}, letter);
      if (std::find(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(i), output_[i]) !=
          output_.begin() + static_cast<std::ptrdiff_t>(i))
        fail("the result names an axis twice", {}, letter);
    }
  }

  // An axis of size 1 that is longer elsewhere broadcasts: it can be left out. Then diagonals.
  void drop_stretched_axes() {
    for (Term& term : terms_) {
      Ints ones;
      Labels kept;
      for (std::size_t i = 0; i < term.labels.size(); ++i) {
        if (term.x.shape()[i] == Dim(1) && sizes_.at(term.labels[i]) != Dim(1))
          ones.push_back(static_cast<std::int64_t>(i));
        else
          kept.push_back(term.labels[i]);
      }
      if (!ones.empty()) term = {squeeze(term.x, ones), kept};
      take_diagonals(term);
    }
  }

  static void take_diagonals(Term& term) {
    for (std::size_t i = 0; i < term.labels.size(); ++i)
      for (std::size_t j = term.labels.size(); j-- > i + 1;) {
        if (term.labels[i] != term.labels[j]) continue;
        // Both axes to the end, where the diagonal takes their place.
        const auto a = static_cast<std::int64_t>(i), b = static_cast<std::int64_t>(j);
        Ints order = ops::other_axes({a, b}, term.x.rank());
        order.push_back(a);
        order.push_back(b);
        const Tensor line = diagonal(transposed(term.x, order));
        term.x = move_axis(line, -1, a);
        term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(j));
      }
  }

  // Whether the result or an operand after `last` (or before `first`) has the label.
  bool needed(Label l, std::size_t first, std::size_t last) const {
    if (contains(output_, l)) return true;
    for (std::size_t i = 0; i < terms_.size(); ++i)
      if ((i < first || i > last) && contains(terms_[i].labels, l)) return true;
    return false;
  }

  // Sums axes that only this term, which stands for operands first to last, has.
  Term without_lone_labels(const Term& term, std::size_t first, std::size_t last) const {
    Ints axes;
    Labels kept;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      if (needed(term.labels[i], first, last))
        kept.push_back(term.labels[i]);
      else
        axes.push_back(static_cast<std::int64_t>(i));
    }
    if (axes.empty()) return term;
    // As narrow as the products of a join, which numpy's einsum keeps too.
    return Term{sum(term.x, axes, {.dtype = as_number(term.x).dtype()}), kept};
  }

  // Operands 0 … i-1, joined, with operand i.
  Term join(const Term& a, const Term& b, std::size_t i) const {
    ir::DotAttrs attrs;
    Labels batch, free_a, free_b;
    for (std::size_t k = 0; k < a.labels.size(); ++k) {
      const Label l = a.labels[k];
      const auto other = std::find(b.labels.begin(), b.labels.end(), l) - b.labels.begin();
      if (other == static_cast<std::ptrdiff_t>(b.labels.size())) {
        free_a.push_back(l);
        continue;
      }
      const bool stays = needed(l, 0, i);
      if (stays) batch.push_back(l);
      (stays ? attrs.a_batch : attrs.a_contract).push_back(static_cast<std::int64_t>(k));
      (stays ? attrs.b_batch : attrs.b_contract).push_back(other);
    }
    for (const Label l : b.labels)
      if (!contains(a.labels, l)) free_b.push_back(l);
    Labels all_labels = batch;
    all_labels.insert(all_labels.end(), free_a.begin(), free_a.end());
    all_labels.insert(all_labels.end(), free_b.begin(), free_b.end());
    if (attrs.a_contract.empty()) return {spread(a, all_labels) * spread(b, all_labels), all_labels};
    return {record(ir::Op::dot_general, {a.x, b.x}, std::move(attrs)), all_labels};
  }

  // The term's axes in the order of `labels`, with size 1 for those it lacks.
  static Tensor spread(const Term& term, const Labels& labels) {
    Ints order;
    Shape shape;
    for (const Label l : labels) {
      const auto at = std::find(term.labels.begin(), term.labels.end(), l) - term.labels.begin();
      const bool present = at < static_cast<std::ptrdiff_t>(term.labels.size());
      if (present) order.push_back(at);
      shape.push_back(present ? term.x.shape()[static_cast<std::size_t>(at)] : Dim(1));
    }
    return reshaped(transposed(term.x, order), shape);
  }

  Tensor arranged(const Term& term) const {
    Ints order;
    for (const Label l : output_)
      order.push_back(std::find(term.labels.begin(), term.labels.end(), l) - term.labels.begin());
    return transposed(term.x, order);
  }

  std::string formula_;
  std::vector<Term> terms_;
  std::map<Label, Dim> sizes_;
  std::map<Label, int> uses_;
  Labels output_;
  int widest_ = 0;  // axes under an ellipsis
};

}  // namespace

Tensor einsum(std::string_view formula, std::span<const Tensor> operands) {
  if (operands.empty()) throw Error(ErrorKind::kInvalidArgument, "einsum", "no operands", "at least one");
  return Einsum(formula, operands).run();
}

Tensor einsum(std::string_view formula, std::initializer_list<Tensor> operands) {
  return einsum(formula, std::span<const Tensor>(operands.begin(), operands.size()));
}

}  // namespace systole
