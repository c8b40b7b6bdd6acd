#pragma once

// Fine-tuning: keep most of a trained model as it is and train the rest.
//
//   load_state_dict(model, values);
//   nn::replace_head(model, 5);        // a new last layer, for 5 classes
//   nn::freeze_all_but_head(model);
//   optim::SGD opt(parameters(model), …);   // the head's weight and bias
//   …
//   nn::unfreeze(model, "layer4");     // later; then a new optimiser
//
// A pattern is a parameter's name, the beginning of one up to a dot ("layer1"), or has stars that stand for
// anything ("*.bias"). A frozen parameter is not among parameters(); a layer with running statistics whose
// parameters are all frozen uses them as they are, in training too, and leaves them alone. Functions compiled
// before a change of the parameters keep the old list: freeze first, then compile.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"

namespace systole::nn {

namespace detail {
SYSTOLE_API std::int64_t set_frozen(const Inventory& found, std::string_view pattern, bool frozen);
SYSTOLE_API std::int64_t freeze_all_but_head(const Inventory& found);
SYSTOLE_API Linear& head(const Inventory& found);
SYSTOLE_API std::vector<std::string> head_names(const Inventory& found);
SYSTOLE_API void replace_head(const Inventory& found, std::int64_t classes);
}  // namespace detail

// Both give the number of parameters that the pattern named, and throw kNotFound with the nearest name when
// it named none.
template <Module M>
std::int64_t freeze(M& module, std::string_view pattern = "*") {
  return detail::set_frozen(inventory(module), pattern, true);
}
template <Module M>
std::int64_t unfreeze(M& module, std::string_view pattern = "*") {
  return detail::set_frozen(inventory(module), pattern, false);
}
// The head is the Linear layer that a model ends with; kUnsupported without one.
template <Module M>
std::int64_t freeze_all_but_head(M& module) {
  return detail::freeze_all_but_head(inventory(module));
}
// The names of its Variables; none without a head.
template <Module M>
std::vector<std::string> head_names(const M& module) {
  return detail::head_names(inventory(module));
}
template <Module M>
void replace_head(M& module, std::int64_t classes) {
  detail::replace_head(inventory(module), classes);
}

}  // namespace systole::nn
