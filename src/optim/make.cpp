#include "systole/optim/make.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/nearest.h"
#include "optim/common.h"
#include "optim/read_options.h"
#include "systole/base/reflect.h"

namespace systole::optim {

namespace keras {

SGDOptions sgd() { return {.lr = 0.01, .flavor = Flavor::keras}; }
AdaGradOptions adagrad() {
  return {.lr = 1e-3, .initial_accumulator = 0.1, .eps = 1e-7, .flavor = Flavor::keras};
}
RMSPropOptions rmsprop() { return {.lr = 1e-3, .alpha = 0.9, .eps = 1e-7, .flavor = Flavor::keras}; }
AdamOptions adam() { return {.eps = 1e-7, .flavor = Flavor::keras}; }
AdamWOptions adamw() { return {.eps = 1e-7, .weight_decay = 0.004, .flavor = Flavor::keras}; }
LionOptions lion() { return {.lr = 1e-3}; }
LAMBOptions lamb() { return {.eps = 1e-7, .flavor = Flavor::keras}; }
MuonOptions muon() {
  return {.weight_decay = 0.004,
          .adjust_lr = MuonAdjust::match_rms_adamw,
          .adam_eps = 1e-7,
          .adam_weight_decay = 0.004,
          .flavor = Flavor::keras};
}

}  // namespace keras

namespace {

GradientDescentOptions pytorch_descent() { return {}; }
GradientDescentOptions keras_descent() { return {.lr = 0.01}; }
template <SGDOptions (*Defaults)()>
SGDOptions with_momentum() {
  SGDOptions options = Defaults();
  options.momentum = 0.9;
  return options;
}
template <SGDOptions (*Defaults)()>
SGDOptions with_nesterov() {
  SGDOptions options = with_momentum<Defaults>();
  options.nesterov = true;
  return options;
}
SGDOptions with_averaging() {
  SGDOptions options = with_momentum<pytorch::sgd>();
  options.averaging = true;
  return options;
}

// The options' own name for what PyTorch or Keras call otherwise.
std::string_view own_name(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kOther[] = {
      {"learning_rate", "lr"},
      {"epsilon", "eps"},
      {"beta_1", "beta1"},
      {"beta_2", "beta2"},
      {"rho", "alpha"},
      {"initial_accumulator_value", "initial_accumulator"},
      {"adjust_lr_fn", "adjust_lr"},
      {"exclude_layers", "adamw"},
      {"adam_beta_1", "adam_beta1"},
      {"adam_beta_2", "adam_beta2"},
  };
  for (const auto& [other, own] : kOther)
    if (name == other) return own;
  return name;
}

MuonAdjust as_adjust(std::string_view where, const Option& option) {
  constexpr std::pair<std::string_view, MuonAdjust> kAll[] = {
      {"original", MuonAdjust::original},
      {"match_rms_adamw", MuonAdjust::match_rms_adamw},
      {"none", MuonAdjust::none},
  };
  std::vector<std::string_view> names;
  const std::string text = as_text(where, option);
  for (const auto& [name, value] : kAll) {
    if (text == name) return value;
    names.push_back(name);
  }
  throw unknown_name(std::string(where), option.name, text, names);
}

DType as_dtype(std::string_view where, const Option& option) {
  const std::string text = as_text(where, option);
  if (const std::optional<DType> dtype = parse_dtype(text)) return *dtype;
  refuse(where, fmt::format("option \"{}\"", option.name), "the name of a dtype", text);
}

void set(std::string_view where, Schedule& member, const Option& o) { member = as_number(where, o); }
void set(std::string_view where, double& member, const Option& o) { member = as_number(where, o); }
void set(std::string_view where, bool& member, const Option& o) { member = as_flag(where, o); }
void set(std::string_view where, std::int64_t& member, const Option& o) { member = as_integer(where, o); }
void set(std::string_view where, MuonAdjust& member, const Option& o) { member = as_adjust(where, o); }
void set(std::string_view where, std::optional<DType>& member, const Option& o) {
  member = as_dtype(where, o);
}
void set(std::string_view where, std::vector<std::string>& member, const Option& o) {
  member = as_texts(where, o);
}

template <class T>
concept Settable = requires(T& member, const Option& o) { set("", member, o); };

template <class O>
void set_all(std::string_view where, O& target, const Options& options) {
  std::vector<std::string_view> names;
  reflect::for_each_member(target, [&](std::string_view name, auto& member) {
    if constexpr (Settable<std::remove_reference_t<decltype(member)>>) names.push_back(name);
  });
  Options renamed = options;
  for (Option& option : renamed) {
    const std::string_view own = own_name(option.name);
    // A word that this optimiser has nothing for is told as it was given.
    if (std::find(names.begin(), names.end(), own) != names.end()) option.name = own;
  }
  check_names(where, renamed, names);
  reflect::for_each_member(target, [&](std::string_view name, auto& member) {
    if constexpr (Settable<std::remove_reference_t<decltype(member)>>)
      for (const Option& option : renamed)
        if (option.name == name) set(where, member, option);
  });
}

struct Request {
  std::string_view name;
  Parameters parameters;
  const Options& options;
  std::optional<Schedule> lr;
  std::vector<Group> groups;
};

template <class Made, auto Defaults>
std::unique_ptr<Optimizer> made(Request request) {
  auto options = Defaults();
  set_all(request.name, options, request.options);
  if (request.lr) options.lr = std::move(*request.lr);
  options.groups = std::move(request.groups);
  return std::make_unique<Made>(std::move(request.parameters), std::move(options));
}

template <auto Defaults>
double first_lr() {
  return Defaults().lr.at(0);
}

struct Row {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(Request);
  double (*lr)();
};

template <class Made, auto Defaults>
constexpr Row row(std::string_view name) {
  return {name, made<Made, Defaults>, first_lr<Defaults>};
}

constexpr Row kPyTorch[] = {
    row<SGD, pytorch::sgd>("sgd"),
    row<GradientDescent, pytorch_descent>("gradient_descent"),
    row<SGD, with_momentum<pytorch::sgd>>("momentum"),
    row<SGD, with_averaging>("averaging_momentum"),
    row<SGD, with_nesterov<pytorch::sgd>>("nesterov"),
    row<AdaGrad, pytorch::adagrad>("adagrad"),
    row<RMSProp, pytorch::rmsprop>("rmsprop"),
    row<Adam, pytorch::adam>("adam"),
    row<AdamW, pytorch::adamw>("adamw"),
    row<Lion, pytorch::lion>("lion"),
    row<LAMB, pytorch::lamb>("lamb"),
    row<Muon, pytorch::muon>("muon"),
};
constexpr Row kKeras[] = {
    row<SGD, keras::sgd>("keras:sgd"),
    row<GradientDescent, keras_descent>("keras:gradient_descent"),
    row<SGD, with_momentum<keras::sgd>>("keras:momentum"),
    row<SGD, with_nesterov<keras::sgd>>("keras:nesterov"),
    row<AdaGrad, keras::adagrad>("keras:adagrad"),
    row<RMSProp, keras::rmsprop>("keras:rmsprop"),
    row<Adam, keras::adam>("keras:adam"),
    row<AdamW, keras::adamw>("keras:adamw"),
    row<Lion, keras::lion>("keras:lion"),
    row<LAMB, keras::lamb>("keras:lamb"),
    row<Muon, keras::muon>("keras:muon"),
};

const Row& find(std::string_view name) {
  constexpr std::string_view kPrefix = "pytorch:";
  const std::string_view plain = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  for (const Row& row : kPyTorch)
    if (row.name == plain) return row;
  for (const Row& row : kKeras)
    if (row.name == name) return row;
  throw unknown_name({}, "optimiser", name, optimizer_names());
}

}  // namespace

std::vector<std::string_view> optimizer_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kPyTorch) names.push_back(row.name);
  for (const Row& row : kKeras) names.push_back(row.name);
  return names;
}

double default_lr(std::string_view name) { return find(name).lr(); }

std::unique_ptr<Optimizer> make(std::string_view name, Parameters parameters, const Options& options,
                                std::vector<Group> groups) {
  return find(name).make({name, std::move(parameters), options, std::nullopt, std::move(groups)});
}

std::unique_ptr<Optimizer> make(std::string_view name, Parameters parameters, Schedule lr,
                                const Options& options, std::vector<Group> groups) {
  for (const Option& option : options)
    if (own_name(option.name) == "lr") refuse(name, "the rate", "it once", "a schedule and an option");
  return find(name).make({name, std::move(parameters), options, std::move(lr), std::move(groups)});
}

}  // namespace systole::optim
