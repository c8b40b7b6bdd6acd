#pragma once

// Optimisers by name, and the defaults of PyTorch and of Keras.
//
//   optim::RMSProp opt(model, optim::keras::rmsprop());
//   auto opt = optim::make("keras:rmsprop", parameters(model), {{"lr", 1e-4}});
//
// Keras's come with Keras's formulas where these differ (each optimiser's header says how).

#include <memory>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/optim/adagrad.h"
#include "systole/optim/adam.h"
#include "systole/optim/lamb.h"
#include "systole/optim/lion.h"
#include "systole/optim/muon.h"
#include "systole/optim/options.h"
#include "systole/optim/sgd.h"

namespace systole::optim {

// PyTorch's are the defaults of the options themselves; Lion's and LAMB's, which it lacks, the papers'.
namespace pytorch {
inline SGDOptions sgd() { return {}; }
inline AdaGradOptions adagrad() { return {}; }
inline RMSPropOptions rmsprop() { return {}; }
inline AdamOptions adam() { return {}; }
inline AdamWOptions adamw() { return {}; }
inline LionOptions lion() { return {}; }
inline LAMBOptions lamb() { return {}; }
inline MuonOptions muon() { return {}; }
}  // namespace pytorch

namespace keras {
SYSTOLE_API SGDOptions sgd();
SYSTOLE_API AdaGradOptions adagrad();
SYSTOLE_API RMSPropOptions rmsprop();
SYSTOLE_API AdamOptions adam();
SYSTOLE_API AdamWOptions adamw();
SYSTOLE_API LionOptions lion();
SYSTOLE_API LAMBOptions lamb();
SYSTOLE_API MuonOptions muon();
}  // namespace keras

// "adam" or "pytorch:adam", "keras:adam", …: sgd, adagrad, rmsprop, adam, adamw, lion, lamb, muon; also
// gradient_descent, and sgd with a momentum of 0.9 as momentum, averaging_momentum and nesterov. Options are
// the members of its options structure by name, or Keras's words for them (learning_rate, epsilon, beta_1,
// rho, …). Throws kNotFound for unknown names and options, with the nearest.
SYSTOLE_API std::unique_ptr<Optimizer> make(std::string_view name, Parameters parameters,
                                            const Options& options = {}, std::vector<Group> groups = {});
// The same with a schedule for the rate.
SYSTOLE_API std::unique_ptr<Optimizer> make(std::string_view name, Parameters parameters, Schedule lr,
                                            const Options& options = {}, std::vector<Group> groups = {});
SYSTOLE_API double default_lr(std::string_view name);  // that make() would take
SYSTOLE_API std::vector<std::string_view> optimizer_names();

}  // namespace systole::optim
