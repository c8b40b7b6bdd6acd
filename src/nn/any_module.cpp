#include "systole/nn/any_module.h"

#include <string>

#include "systole/base/error.h"

namespace systole::nn {

AnyModule::AnyModule(const AnyModule& other) {
  if (other.empty()) return;
  held_ = other.held_->copy();
  if (held_ == nullptr)
    throw Error(ErrorKind::kUnsupported, "AnyModule", "a module that cannot be copied",
                "one with a copy constructor, or a move of the AnyModule", std::string(other.type()));
}

const AnyModule::Holder& AnyModule::held() const {
  if (empty())
    throw Error(ErrorKind::kInvalidArgument, "AnyModule", "it holds no module", "one made from a module");
  return *held_;
}

Tensor AnyModule::forward(const Tensor& x) const { return held().forward(x); }

std::string_view AnyModule::type() const { return held().type(); }

void AnyModule::walk(const std::string& path, int depth, Inventory& out) {
  if (!empty()) held_->walk(path, depth, out);
}

}  // namespace systole::nn
