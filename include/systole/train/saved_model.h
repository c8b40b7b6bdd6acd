#pragma once

// A model in one file: weights as safetensors, which any reader opens, and in the header the graph of what
// it computes. Loading needs nothing of the program that saved it.
//
//   save("net.safetensors", net, {{DType::f32, {1, 28, 28, 1}}}, {.classes = {"shirt", "shoe"}});
//   …
//   SavedModel m = load("net.safetensors");
//   Tensor y = m(x);                                   // any batch size, any device: m.to("cuda")
//   m.set("fc2.weight", w);                            // other weights under the same graph
//
// What is saved is the model after training (dropout off, batch normalisation by its running statistics). A
// function around it goes along, preprocessing for instance:
//
//   save("net.safetensors", net, [&](const Tensor& pixels) {
//     return softmax(net.forward(pixels.to(DType::f32) / 255), -1);
//   }, {{DType::u8, {1, 28, 28, 1}}});

#include <array>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/base/export.h"
#include "systole/io/safetensors.h"
#include "systole/ir/graph.h"
#include "systole/nn/module.h"
#include "systole/nn/summary.h"
#include "systole/tensor/tree.h"

namespace systole {

// The type of an input: as dtype and shape, or that of an example. The leading axis of the first input, and
// of each that has the same number there, is the batch: the saved model takes any. A shape with symbols of
// its own (Dim::symbol("N")) is taken as it is.
struct InputSpec {
  Type type;
  InputSpec(Type given) : type(std::move(given)) {}
  InputSpec(DType dtype, Shape shape) : type{dtype, std::move(shape)} {}
  InputSpec(Shape shape) : type{DType::f32, std::move(shape)} {}
  InputSpec(const Tensor& example) : type(example.type()) {}
};

struct SaveOptions {
  std::vector<std::string> input_names = {}, output_names = {};  // else "input", "output", or with numbers
  std::vector<std::string> classes = {};                         // what the scores of the last axis stand for
  io::Metadata metadata = {};                                    // anything else
  std::string name = "model";
  bool any_batch = true;  // false: the batch size of the inputs given is the only one
};

struct LoadOptions {
  bool other_weights = false;  // accept a file whose weights are not those that were saved with the graph
  std::string device = {};     // where the weights go; empty: current_device()
  bool kernels = false;        // compile kernels whose source is in the file: only of files you trust
  bool follow_links = false;   // of a folder: follow a link that leads out of it (io::ReadOptions)
};

// Copies share weights and programs. It is compiled once for each type of inputs and each device; threads may
// call it at the same time, as long as none changes weights. A default-constructed one is empty: using it
// throws kInvalidArgument.
class SYSTOLE_API SavedModel {
 public:
  struct Io {
    std::string name;
    Type type;  // a batch axis is the symbol N
  };
  const std::vector<Io>& inputs() const;
  const std::vector<Io>& outputs() const;
  const std::string& name() const;
  const std::vector<std::string>& classes() const;
  const io::Metadata& metadata() const;
  std::string summary() const;  // inputs, outputs and a table of the weights
  const ir::Graph& graph() const;

  // The single output; throws kInvalidArgument when there are more, and what a graph throws for arguments
  // that do not fit, naming the input.
  template <class... A>
    requires(sizeof...(A) > 0 && (std::convertible_to<const A&, Tensor> && ...))
  Tensor operator()(const A&... inputs) const {
    const std::array<Tensor, sizeof...(A)> list{Tensor(inputs)...};
    return single(list);
  }
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;  // all outputs
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) const {
    return run(std::span<const Tensor>(inputs.begin(), inputs.size()));
  }

  // Of the same shape; a dtype is converted. Throws kNotFound with the nearest name, or kShape. A name that
  // was tied to another when the model was saved means the same weight.
  void set(std::string_view name, const Tensor& value);
  SavedModel& to(std::string_view device);

  // It is a module like any other: its names are those of the model that was saved, and parameters(m),
  // state_dict(m), load_state_dict(m, values) and optimisers take it.
  template <class Self, class V>
  static void visit(Self& self, V&& v) {
    self.each_variable([&](std::string_view name, Variable& variable) { v(name, variable); });
  }

  Parameters parameters() const { return nn::parameters(*this); }  // the trainable ones
  Parameters variables() const { return nn::variables(*this); }    // all

  void save(const std::filesystem::path& file) const;  // as it is now

 private:
  friend SYSTOLE_API SavedModel load(const std::filesystem::path&, const LoadOptions&);
  Tensor single(std::span<const Tensor> inputs) const;
  void each_variable(const std::function<void(std::string_view, Variable&)>& f) const;  // tied names too
  struct State;
  State& state() const;
  std::shared_ptr<State> state_;
};

// Throws kUnsupported for a safetensors file without a graph (io::load_safetensors() gives its arrays) or
// with kernels of its own, and kParse when graph, weights and digest do not belong together.
SYSTOLE_API SavedModel load(const std::filesystem::path& file, const LoadOptions& options = {});

namespace training::detail {

// A function of as many Tensors as are given, for those numbers that F takes.
template <class F>
tree::FlatFunction tensor_function(F&& f) {
  return [&f](const Flat& arguments) {
    const std::vector<Tensor>& x = arguments.tensors;
    Flat out;
    bool found = false;
    const auto attempt = [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (requires { f(x[I]...); })
        if (x.size() == sizeof...(I)) {
          out = tree::flat_result([&]() -> decltype(auto) { return f(x[I]...); });
          found = true;
        }
    };
    [&]<std::size_t... N>(std::index_sequence<N...>) {
      (attempt(std::make_index_sequence<N>{}), ...);
    }(std::make_index_sequence<9>{});
    if (!found)
      throw Error(ErrorKind::kInvalidArgument, "save", "the function does not take so many Tensors",
                  "one input for each argument", std::to_string(x.size()));
    return out;
  };
}

SYSTOLE_API void save_model(const std::filesystem::path& file, const nn::Inventory& found,
                            const tree::FlatFunction& fn, std::vector<InputSpec> inputs,
                            const SaveOptions& options);

}  // namespace training::detail

// Saves any function of Tensors over a model; up to 8 inputs.
template <nn::Module M, class F>
  requires(!std::convertible_to<F, std::vector<InputSpec>>)
void save(const std::filesystem::path& file, const M& model, F&& fn, std::vector<InputSpec> inputs,
          const SaveOptions& options = {}) {
  const nn::Inventory found = nn::inventory(model);
  const nn::detail::Modes modes(found);
  nn::detail::set_training(found, false);
  training::detail::save_model(file, found, training::detail::tensor_function(fn), std::move(inputs),
                               options);
}
// Saves model.forward, or its call.
template <nn::Module M>
void save(const std::filesystem::path& file, const M& model, std::vector<InputSpec> inputs,
          const SaveOptions& options = {}) {
  if constexpr (requires { &M::forward; } || requires(const Tensor& x) { model.forward(x); })
    save(
        file, model,
        [&model](const auto&... x)
          requires requires { model.forward(x...); }
        { return model.forward(x...); },
        std::move(inputs), options);
  else
    save(file, model, model, std::move(inputs), options);
}

}  // namespace systole
