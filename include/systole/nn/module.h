#pragma once

// Modules are plain structs: members that are Variables, other modules, or containers of them, and a function
// forward. Nothing is registered; the names of parameters are the members' own, joined by dots, and so are
// the names of a PyTorch state_dict.
//
//   struct Net {
//     nn::Linear fc1{784, 128}, fc2{128, 10};
//     Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
//   };
//   Net net;
//   parameters(net);   // fc1.weight, fc1.bias, fc2.weight, fc2.bias
//
// Elements of a vector, array or tuple are named by their index ("blocks.0.conv.weight"), those of a map by
// their key. A class that is no
// aggregate (with a constructor, or private members) gives its members by one function:
//
//   template <class V> void visit(V&& v) { v("fc1", fc1_); v("fc2", fc2_); }
//
// or a static visit(self, v), which serves const objects as well; one whose members are known only at run
// time (AnyModule) has a function walk(path, depth, inventory). A copy of a module shares its Variables;
// clone() makes new ones.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/reflect.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole {

struct NamedVariable {
  std::string name;
  Variable variable;
  operator Variable() const { return variable; }
};

// Variables with their dotted names, in the order of the members. Stands wherever a list of Variables does.
class SYSTOLE_API Parameters {
 public:
  Parameters() = default;
  void add(std::string name, Variable variable);

  std::size_t size() const { return variables_.size(); }
  bool empty() const { return variables_.empty(); }
  NamedVariable operator[](std::size_t i) const { return {names_[i], variables_[i]}; }
  Variable at(std::string_view name) const;  // throws kNotFound with the names there are
  const std::vector<std::string>& names() const& { return names_; }
  std::vector<std::string> names() && { return std::move(names_); }
  const std::vector<Variable>& variables() const& { return variables_; }
  std::vector<Variable> variables() && { return std::move(variables_); }
  operator std::span<const Variable>() const { return {variables_.data(), variables_.size()}; }
  std::int64_t count() const;  // of all elements

  class Iterator {
   public:
    using value_type = NamedVariable;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const Parameters* list, std::size_t at) : list_(list), at_(at) {}
    NamedVariable operator*() const { return (*list_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(list_, at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    const Parameters* list_ = nullptr;
    std::size_t at_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  std::vector<std::string> names_;
  std::vector<Variable> variables_;
};

namespace nn {

// What load_state_dict() did, by name.
struct LoadedState {
  std::vector<std::string> taken;      // Variables that have their value now
  std::vector<std::string> missing;    // Variables without a value, which stay as they were
  std::vector<std::string> left_over;  // values without a Variable
};

// What a walk over a module finds: every Variable, and every module on the way.
struct Inventory {
  // A member `training`: a Setting, or a plain bool that compiled functions do not notice.
  struct Mode {
    Setting<bool>* setting = nullptr;
    bool* flag = nullptr;
    bool exists() const { return setting != nullptr || flag != nullptr; }
    bool get() const { return setting != nullptr ? static_cast<bool>(*setting) : *flag; }
    void set(bool training) const {
      if (setting != nullptr) *setting = training;
      if (flag != nullptr) *flag = training;
    }
  };
  struct Cell {
    std::string name;
    Variable* variable;
  };
  struct Part {
    std::string name;  // empty: the module itself
    std::string_view type;
    const void* address;
    std::size_t cells;          // how many Variables were found before it …
    std::size_t cells_end = 0;  // … and with it
    int depth = 0;
    Mode mode = {};
    Setting<bool>* frozen = nullptr;  // a member `frozen`: whether running statistics stay as they are
  };
  std::vector<Cell> cells;
  std::vector<Part> parts;
};

namespace detail {

// Accepts every call that a visit() makes.
struct AnyVisitor {
  template <class T>
  void operator()(std::string_view, T&&) const {}
};

template <class M>
concept StaticVisit = requires(M& module, AnyVisitor v) { M::visit(module, v); };
template <class M>
concept MemberVisit = !StaticVisit<M> && requires(M& module, AnyVisitor v) { module.visit(v); };

template <class M>
struct IsList : std::false_type {};
template <class T, class A>
struct IsList<std::vector<T, A>> : std::true_type {};
template <class T, std::size_t N>
struct IsList<std::array<T, N>> : std::true_type {};
template <class M>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};
template <class M>
struct IsHolder : std::false_type {};
template <class T>
struct IsHolder<std::optional<T>> : std::true_type {};
template <class T, class D>
struct IsHolder<std::unique_ptr<T, D>> : std::true_type {};
template <class M>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};
template <class M>
struct IsSharedClass : std::false_type {};
template <class T>
struct IsSharedClass<std::shared_ptr<T>> : std::is_class<T> {};

template <class M>
concept Visited = StaticVisit<M> || MemberVisit<M>;
// Walks itself, at run time.
template <class M>
concept Walker = requires(M& module, const std::string& path, Inventory& out) { module.walk(path, 0, out); };
template <class M>
concept Plain = reflect::Aggregate<M> && !Visited<M> && !IsList<M>::value;

// Has a function forward.
template <class M>
concept Callable = requires(M& m, const Tensor& x) { m.forward(x); } || requires { &M::forward; };

inline std::string joined(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

template <class M>
void walk(M& object, const std::string& path, int depth, Inventory& out);

template <class M>
void walk_members(M& module, const std::string& path, int depth, Inventory& out) {
  const auto each = [&](std::string_view name, auto& member) {
    walk(member, joined(path, name), depth, out);
  };
  if constexpr (StaticVisit<M>)
    M::visit(module, each);
  else if constexpr (MemberVisit<M>)
    module.visit(each);
  else
    reflect::for_each_member(module, each);
}

template <class M>
void walk(M& object, const std::string& path, int depth, Inventory& out) {
  if constexpr (std::is_const_v<M>) {
    // A const member: its Variables are references, whose cells are not const.
    walk(const_cast<std::remove_const_t<M>&>(object), path, depth, out);
  } else if constexpr (std::same_as<M, Variable>) {
    if (object.defined()) out.cells.push_back({path, &object});
  } else if constexpr (Walker<M>) {
    object.walk(path, depth, out);
  } else if constexpr (Visited<M> || Plain<M>) {
    Inventory::Part part{path, reflect::type_name<M>, &object, out.cells.size()};
    part.depth = depth;
    if constexpr (requires {
                    { (object.training) } -> std::same_as<Setting<bool>&>;
                  })
      part.mode.setting = &object.training;
    else if constexpr (requires {
                         { (object.training) } -> std::same_as<bool&>;
                       })
      part.mode.flag = &object.training;
    if constexpr (requires {
                    { (object.frozen) } -> std::same_as<Setting<bool>&>;
                  })
      part.frozen = &object.frozen;
    const std::size_t at = out.parts.size();
    out.parts.push_back(std::move(part));
    walk_members(object, path, depth + 1, out);
    out.parts[at].cells_end = out.cells.size();
  } else if constexpr (IsList<M>::value || std::is_array_v<M>) {
    if constexpr (std::is_class_v<std::remove_cvref_t<decltype(*std::begin(object))>>) {
      std::size_t i = 0;
      for (auto& element : object) walk(element, joined(path, std::to_string(i++)), depth, out);
    }
  } else if constexpr (IsTuple<M>::value) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (walk(std::get<I>(object), joined(path, std::to_string(I)), depth, out), ...);
    }(std::make_index_sequence<std::tuple_size_v<M>>{});
  } else if constexpr (IsMap<M>::value) {
    for (auto& [key, element] : object) walk(element, joined(path, key), depth, out);
  } else if constexpr (IsHolder<M>::value) {
    if (object) walk(*object, path, depth, out);
  } else {
    // A module that hides its parameters would train nothing and say nothing.
    static_assert(!Callable<M>,
                  "this module is no plain aggregate, so its members cannot be seen: leave its constructor "
                  "and private members out, or give it a function visit()");
    static_assert(!IsSharedClass<M>::value,
                  "a shared_ptr is no part of a module: hold the module itself, whose copies share its "
                  "Variables, or a unique_ptr");
  }
}

// Also gives every Variable without a name the one it was found by.
SYSTOLE_API void name_cells(const Inventory& found);

SYSTOLE_API Parameters parameters(const Inventory& found, bool all);
SYSTOLE_API void set_training(const Inventory& found, bool training);
// The same on behalf of a user: warns of a plain bool that compiled functions have read already.
SYSTOLE_API void set_mode(const Inventory& found, bool training);
SYSTOLE_API void renew(const Inventory& found, std::optional<DType> dtype);
SYSTOLE_API void to(const Inventory& found, std::string_view device);
SYSTOLE_API std::map<std::string, Tensor> state_dict(const Inventory& found);
SYSTOLE_API LoadedState load(const Inventory& found, const std::map<std::string, Tensor>& values,
                             bool strict);

}  // namespace detail

template <class M>
concept Module = std::is_class_v<M> && !std::same_as<M, Tensor> &&
                 (detail::Visited<M> || detail::Walker<M> || detail::Plain<M> || detail::IsList<M>::value ||
                  detail::IsTuple<M>::value || detail::IsHolder<M>::value || detail::IsMap<M>::value);

template <Module M>
Inventory inventory(const M& module) {
  Inventory found;
  detail::walk(module, {}, 0, found);
  detail::name_cells(found);
  return found;
}

// The trainable Variables; one that is reached twice is listed once, under its first name.
template <Module M>
Parameters parameters(const M& module) {
  return detail::parameters(inventory(module), false);
}
// All Variables, running statistics and the like included.
template <Module M>
Parameters variables(const M& module) {
  return detail::parameters(inventory(module), true);
}

// The mode of every module that has one, a member `Setting<bool> training`: dropout and batch normalisation
// act differently in training and after it. A plain `bool training` changes too, with a warning where
// functions that use the module are compiled already: they do not notice.
template <Module M>
void train(M& module, bool training = true) {
  detail::set_mode(inventory(module), training);
}
template <Module M>
void eval(M& module) {
  train(module, false);
}

// A copy with Variables of its own. Tied ones stay tied.
template <Module M>
  requires std::copy_constructible<M>
M clone(const M& module) {
  M copy = module;
  detail::renew(inventory(copy), std::nullopt);
  return copy;
}

// Gives the module new Variables of the dtype in place of its floating-point ones. An optimiser made before
// has the old ones: its next step, and gradients by them, are an error.
template <Module M>
void cast(M& module, DType dtype) {
  detail::renew(inventory(module), dtype);
}

template <Module M>
void to(M& module, std::string_view device) {
  detail::to(inventory(module), device);
}

// Values by name, all Variables included.
template <Module M>
std::map<std::string, Tensor> state_dict(const M& module) {
  return detail::state_dict(inventory(module));
}
// Assigns them; a dtype is converted. A norm's old names are known: "norm.gamma" and "norm.beta" are the
// values of "norm.weight" and "norm.bias". Throws kShape for a value of another shape, kNotFound when no name
// fits, and, when strict, kNotFound naming all keys that are missing or unexpected; then nothing was
// assigned.
template <Module M>
LoadedState load_state_dict(M& module, const std::map<std::string, Tensor>& values, bool strict = true) {
  return detail::load(inventory(module), values, strict);
}

// The output's type, for summary(): a layer passes what it returns through here.
SYSTOLE_API Tensor observed(const void* layer, std::string_view type, Tensor output);
template <class M>
Tensor observed(const M& layer, Tensor output) {
  return observed(&layer, reflect::type_name<M>, std::move(output));
}

// y = module(x), by forward when there is one.
template <class M, class... A>
  requires(
      requires(const M& module, const A&... arguments) { module.forward(arguments...); } ||
      requires(const M& module, const A&... arguments) { module(arguments...); })
decltype(auto) apply(const M& module, const A&... arguments) {
  if constexpr (requires { module.forward(arguments...); })
    return module.forward(arguments...);
  else
    return module(arguments...);
}

}  // namespace nn

using nn::load_state_dict;
using nn::parameters;
using nn::state_dict;
using nn::variables;

}  // namespace systole
