#include "train/bad_numbers.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "systole/tensor/tree.h"
#include "tensor/bad_op.h"
#include "tensor/record.h"
#include "tensor/trace.h"

namespace systole::training {

namespace {

// "field x of sample 24 of the data holds nan at [3]"
std::string held_text(const std::string& field, const Literal& value, const recording::Look& seen,
                      const std::vector<std::int64_t>& samples) {
  const std::int64_t rows = value.rank() == 0 ? 0 : value.dims()[0];
  if (rows == 0) return {};
  const std::int64_t each = value.count() / rows, row = seen.at / each;
  const bool is_known = rows == std::ssize(samples);
  const double number = value.to_doubles()[static_cast<std::size_t>(seen.at)];
  const Shape shape(std::span<const Dim>(value.shape().begin() + 1, value.shape().end()));
  return fmt::format("field {} of sample {} of the {} holds {}{}", field,
                     is_known ? samples[static_cast<std::size_t>(row)] : row, is_known ? "data" : "batch",
                     recording::number_text(number),
                     shape.empty() ? "" : " at " + recording::place_text(shape, seen.at % each));
}

}  // namespace

std::string first_bad_op(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& fields, const StepData& data, const std::string& device) {
  const Flat arguments = tree::flat(fields);
  std::vector<int> all;
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) all.push_back(static_cast<int>(i));
  const recording::Traced traced = recording::trace(
      [&](const Flat& flat) { return tree::flat(f(flat.tensors)); }, arguments, all,
      {.variables = recording::Frame::Variables::bind, .purpose = recording::Frame::Purpose::compile});
  std::vector<Literal> inputs;
  std::vector<std::string> names;
  for (const Tensor& x : arguments.tensors) {
    names.push_back(inputs.size() < data.fields.size() && !data.fields[inputs.size()].empty()
                        ? data.fields[inputs.size()]
                        : std::to_string(inputs.size()));
    inputs.push_back(x.literal());
  }
  for (const Tensor& x : recording::surroundings(traced)) {
    const std::size_t i = inputs.size() - arguments.tensors.size();
    names.push_back(i < traced.bound.size() ? traced.bound[i].cell->name : "a Tensor of the program");
    inputs.push_back(x.literal());
  }
  const std::size_t count = arguments.tensors.size();
  const std::vector<std::string> named = names;
  return recording::first_bad_op(traced.graph, std::move(inputs), std::move(names), device,
                                 [&](std::size_t input, const Literal& value, const recording::Look& seen) {
                                   return input < count ? held_text(named[input], value, seen, data.samples)
                                                        : "";
                                 });
}

}  // namespace systole::training
