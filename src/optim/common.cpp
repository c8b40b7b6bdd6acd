#include "optim/common.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "ops/common.h"
#include "systole/base/error.h"
#include "systole/tensor/math.h"
#include "tensor/frame.h"
#include "tensor/gradient_marks.h"
#include "tensor/record.h"

namespace systole::optim {

void refuse(std::string_view where, std::string message, std::string expected, std::string got) {
  throw Error(ErrorKind::kInvalidArgument, std::string(where), std::move(message), std::move(expected),
              std::move(got));
}

void check_number(std::string_view where, std::string_view what, double value, double least, double below) {
  if (!(value >= least && value < below))
    refuse(where, std::string(what), fmt::format("at least {} and below {}", least, below),
           fmt::format("{}", value));
}

void check_apply(std::string_view where, const Tensor& apply) {
  const Type wanted{DType::boolean, {}};
  if (const Type& type = recording::checked(apply, where).type; type != wanted)
    refuse(where, "whether to update", wanted.to_string(), type.to_string());
}

void check_gradients(std::string_view where, const Parameters& parameters, std::span<const Tensor> grads) {
  if (grads.size() != parameters.size()) {
    const bool few = grads.size() < parameters.size();
    refuse(where,
           few ? fmt::format("no gradient for parameter \"{}\"", parameters.names()[grads.size()])
               : std::string("more gradients than parameters"),
           fmt::format("{} gradients", parameters.size()), std::to_string(grads.size()));
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::string here = fmt::format("{}: the gradient of \"{}\"", where, parameters.names()[i]);
    const Type& type = recording::checked(grads[i], here).type;
    if (type.shape != parameters.variables()[i].shape())
      throw Error(ErrorKind::kShape, here, "its shape", parameters.variables()[i].type().to_string(),
                  type.to_string());
    const Variable& parameter = parameters.variables()[i];
    const recording::OtherVariable other = recording::other_variable(grads[i], parameter);
    const recording::CellRef replacement = parameter.cell()->replaced_by.lock();
    // A gradient without a mark tells by its dtype: nn::cast changes that.
    const bool is_replaced = other.replaces || (replacement && type.dtype == replacement->type.dtype);
    if (is_replaced)
      refuse(here, "nn::cast has replaced the parameter by another Variable",
             "an optimiser that is made after nn::cast", type.to_string());
    if (other.exists)
      refuse(here, "it is the gradient of another Variable",
             fmt::format("gradients in the order of {}.parameters()", where),
             other.name.empty() ? "that of one without a name" : fmt::format("that of \"{}\"", other.name));
  }
}

void check_parameters(std::string_view where, const Parameters& parameters) {
  if (parameters.empty())
    refuse(where, "there are no parameters, so nothing would be trained",
           "at least one; parameters(module) leaves frozen ones out", "an empty list");
}

bool fits(std::string_view pattern, std::string_view name) {
  // After a mismatch the last star takes one letter more.
  std::size_t p = 0, n = 0, star = pattern.size(), taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != pattern.size()) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<std::size_t> first_fit(std::string_view where, const Parameters& parameters,
                                   std::span<const std::vector<std::string>> lists) {
  std::vector<std::size_t> result(parameters.size(), lists.size());
  for (std::size_t list = 0; list < lists.size(); ++list)
    for (const std::string& pattern : lists[list]) {
      bool found = false;
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (fits(pattern, parameters.names()[i])) {
          found = true;
          result[i] = std::min(result[i], list);
        }
      if (!found) {
        const std::vector<std::string>& all = parameters.names();
        throw unknown_name(std::string(where), "parameter", pattern,
                           std::vector<std::string_view>(all.begin(), all.end()));
      }
    }
  return result;
}

Tensor wide(const Tensor& x) { return recording::as_dtype(x, ops::compute_dtype(x.dtype())); }

void write(Variable variable, const Tensor& value) {
  variable.assign(recording::as_dtype(value, variable.dtype()));
}

Tensor bias_correction(double beta, const Tensor& step) { return -expm1(step * std::log(beta)); }

Tensor averaged(double beta, const Tensor& average, const Tensor& x) {
  return average * beta + x * (1 - beta);
}

Tensor plus_scaled(const Tensor& x, double factor, const Tensor& y) {
  return factor == 0 ? x : x + y * factor;
}

Tensor decayed(const Tensor& parameter, const Tensor& lr, double weight_decay) {
  return weight_decay == 0 ? parameter : parameter * (1 - lr * weight_decay);
}

}  // namespace systole::optim
