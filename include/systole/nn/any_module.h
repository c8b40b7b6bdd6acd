#pragma once

// AnyModule: one type for every module that maps a Tensor to a Tensor, for models that are chosen while a
// program runs.
//
//   nn::AnyModule model = name == "mlp" ? nn::AnyModule(Mlp()) : nn::AnyModule(Cnn());
//   parameters(model);      // named as the module inside names them
//   Tensor y = model(x);
//
// It is a module itself: what works on a module works on it and on structs and vectors that hold some. As
// with every module, a copy shares the Variables, while clone() makes new ones.

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "systole/base/export.h"
#include "systole/base/reflect.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"

namespace systole::nn {

class SYSTOLE_API AnyModule {
 public:
  AnyModule() = default;  // holds nothing: any use but the tests below throws
  template <class M>
    requires(!std::same_as<M, AnyModule> && Module<M> && !detail::IsHolder<M>::value &&
             requires(const M& m, const Tensor& x) {
               { nn::apply(m, x) } -> std::same_as<Tensor>;
             })
  AnyModule(M module) : held_(std::make_unique<Held<M>>(std::make_unique<M>(std::move(module)))) {}
  // A module that cannot be copied or moved; copying this AnyModule then throws kUnsupported.
  template <class M>
    requires Module<M>
  AnyModule(std::unique_ptr<M> module) {
    if (module) held_ = std::make_unique<Held<M>>(std::move(module));
  }
  AnyModule(const AnyModule& other);
  AnyModule(AnyModule&&) noexcept = default;
  AnyModule& operator=(AnyModule other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }
  ~AnyModule() = default;

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  bool empty() const { return held_ == nullptr; }
  explicit operator bool() const { return !empty(); }
  std::string_view type() const;  // "systole::nn::Linear"
  // The module inside if it is an M, else nullptr.
  template <class M>
  M* get() {
    return held_ != nullptr && held_->id() == typeid(M) ? static_cast<M*>(held_->address()) : nullptr;
  }
  template <class M>
  const M* get() const {
    return const_cast<AnyModule*>(this)->get<M>();
  }

  void walk(const std::string& path, int depth, Inventory& out);  // for inventory()

 private:
  struct Holder {
    virtual ~Holder() = default;
    virtual Tensor forward(const Tensor& x) const = 0;
    virtual void walk(const std::string& path, int depth, Inventory& out) = 0;
    virtual std::unique_ptr<Holder> copy() const = 0;  // null: it cannot be copied
    virtual std::string_view type() const = 0;
    virtual const std::type_info& id() const = 0;
    virtual void* address() = 0;
  };
  template <class M>
  struct Held final : Holder {
    explicit Held(std::unique_ptr<M> module) : module(std::move(module)) {}
    Tensor forward(const Tensor& x) const override { return nn::apply(std::as_const(*module), x); }
    void walk(const std::string& path, int depth, Inventory& out) override {
      detail::walk(*module, path, depth, out);
    }
    std::unique_ptr<Holder> copy() const override {
      if constexpr (std::copy_constructible<M>)
        return std::make_unique<Held>(std::make_unique<M>(*module));
      else
        return nullptr;
    }
    std::string_view type() const override { return reflect::type_name<M>; }
    const std::type_info& id() const override { return typeid(M); }
    void* address() override { return module.get(); }

    std::unique_ptr<M> module;  // stays where it is when the AnyModule moves
  };
  const Holder& held() const;

  std::unique_ptr<Holder> held_;
};

}  // namespace systole::nn
