#pragma once

// The attributes of a node as a std::variant, for what treats all of them alike:
//
//   std::visit([]<class A>(const A& attrs) { A::fields(...); }, ir::variant(node.attrs));

#include <variant>

#include "systole/base/export.h"
#include "systole/ir/attrs.h"

namespace systole::ir {

namespace detail {
template <class List>
struct VariantOf;
template <class... As>
struct VariantOf<AttrsList<As...>> {
  using type = std::variant<As...>;
};
}  // namespace detail

using AttrsVariant = detail::VariantOf<AllAttrs>::type;

SYSTOLE_API const AttrsVariant& variant(const Attrs& attrs);
SYSTOLE_API AttrsVariant& variant(Attrs& attrs);

}  // namespace systole::ir
