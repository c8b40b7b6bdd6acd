#pragma once

// A table of a model's layers: path, type, output shape, number of parameters.
//
//   std::cout << summary(model, {64, 784});
//
// For the shapes the model is run once, in the mode after training, on an input that is never computed.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"

namespace systole {

namespace nn::detail {

// While it lives, observed() of this thread notes the types of outputs.
class SYSTOLE_API Observation {
 public:
  Observation();
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  struct Notes;
  friend SYSTOLE_API Tensor nn::observed(const void*, std::string_view, Tensor);
  friend SYSTOLE_API std::string summary_table(const Inventory&, const Observation*, const Tensor*);
  std::unique_ptr<Notes> notes_;
  Observation* outer_;
};

SYSTOLE_API std::string summary_table(const Inventory& found, const Observation* seen, const Tensor* output);
SYSTOLE_API Tensor stand_in(Shape shape, DType dtype);

// The modes of a module, put back at the end.
class Modes {
 public:
  explicit Modes(const Inventory& found) {
    for (const Inventory::Part& part : found.parts)
      if (part.mode.exists()) modes_.emplace_back(part.mode, part.mode.get());
  }
  ~Modes() {
    for (const auto& [mode, training] : modes_) mode.set(training);
  }
  Modes(const Modes&) = delete;
  Modes& operator=(const Modes&) = delete;

 private:
  std::vector<std::pair<Inventory::Mode, bool>> modes_;
};

}  // namespace nn::detail

// Without an input: no shapes.
template <nn::Module M>
std::string summary(const M& module) {
  return nn::detail::summary_table(nn::inventory(module), nullptr, nullptr);
}
// With an input of this shape; integer models (of words) need their dtype.
template <nn::Module M>
std::string summary(const M& module, Shape input, DType dtype = DType::f32) {
  const nn::Inventory found = nn::inventory(module);
  const nn::detail::Modes modes(found);
  nn::detail::set_training(found, false);
  const nn::detail::Observation seen;
  const auto output = nn::apply(module, nn::detail::stand_in(std::move(input), dtype));
  if constexpr (std::same_as<std::remove_cvref_t<decltype(output)>, Tensor>)
    return nn::detail::summary_table(found, &seen, &output);
  else
    return nn::detail::summary_table(found, &seen, nullptr);
}

}  // namespace systole
