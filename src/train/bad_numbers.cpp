#include "train/bad_numbers.h"

#include <fmt/format.h>

#include <utility>

#include "systole/tensor/tree.h"
#include "tensor/bad_op.h"
#include "tensor/record.h"
#include "tensor/trace.h"

namespace systole::training {

std::string first_bad_op(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& fields, const std::string& device) {
  const Flat arguments = tree::flat(fields);
  std::vector<int> all;
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) all.push_back(static_cast<int>(i));
  const recording::Traced traced = recording::trace(
      [&](const Flat& flat) { return tree::flat(f(flat.tensors)); }, arguments, all,
      {.variables = recording::Frame::Variables::bind, .purpose = recording::Frame::Purpose::compile});
  std::vector<Literal> inputs;
  std::vector<std::string> names;
  for (const Tensor& x : arguments.tensors) {
    names.push_back(fmt::format("field {} of the data", inputs.size()));
    inputs.push_back(x.literal());
  }
  for (const Tensor& x : recording::surroundings(traced)) {
    const std::size_t i = inputs.size() - arguments.tensors.size();
    names.push_back(i < traced.bound.size() ? traced.bound[i].cell->name : "a Tensor of the program");
    inputs.push_back(x.literal());
  }
  return recording::first_bad_op(traced.graph, std::move(inputs), std::move(names), device);
}

}  // namespace systole::training
