#include "systole/ir/attrs.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "systole/base/error.h"
#include "systole/ir/attrs_variant.h"

namespace systole::ir {

namespace {

template <class T>
const T& get(const AttrMap& attrs, std::string_view key, std::string_view wanted) {
  const auto it = attrs.find(key);
  if (it == attrs.end())
    throw Error(ErrorKind::kInvalidArgument, "attribute " + std::string(key), "missing", std::string(wanted));
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr)
    throw Error(ErrorKind::kInvalidArgument, "attribute " + std::string(key), "wrong type",
                std::string(wanted));
  return *value;
}

// Where each role letter stands in one of the three parts of a layout: b/f or i/o, and digits for spatial
// axes.
struct Part {
  std::int64_t first = -1, second = -1;
  Ints spatial;
};

Part parse_part(std::string_view text, char first, char second, std::string_view layout) {
  const auto fail = [&] {
    throw Error(ErrorKind::kInvalidArgument, "convolution", "malformed layout",
                "three groups such as b01f_01io->b01f", fmt::format("\"{}\"", layout));
  };
  Part part;
  if (text.size() < 2 || text.size() > 2 + 10) fail();
  part.spatial.resize(text.size() - 2, -1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::int64_t* slot = nullptr;
    if (text[i] == first) slot = &part.first;
    if (text[i] == second) slot = &part.second;
    if (text[i] >= '0' && text[i] <= '9' && static_cast<std::size_t>(text[i] - '0') < part.spatial.size())
      slot = &part.spatial[static_cast<std::size_t>(text[i] - '0')];
    if (slot == nullptr || *slot != -1) fail();
    *slot = static_cast<std::int64_t>(i);
  }
  return part;
}

}  // namespace

ConvolutionAxes parse_convolution_layout(std::string_view layout) {
  const std::size_t underscore = layout.find('_'), arrow = layout.find("->");
  if (underscore == layout.npos || arrow == layout.npos || arrow < underscore)
    throw Error(ErrorKind::kInvalidArgument, "convolution", "malformed layout",
                "a form such as b01f_01io->b01f", fmt::format("\"{}\"", layout));
  const Part operand = parse_part(layout.substr(0, underscore), 'b', 'f', layout);
  const Part kernel = parse_part(layout.substr(underscore + 1, arrow - underscore - 1), 'i', 'o', layout);
  const Part result = parse_part(layout.substr(arrow + 2), 'b', 'f', layout);
  if (operand.spatial.size() != kernel.spatial.size() || operand.spatial.size() != result.spatial.size())
    throw Error(ErrorKind::kInvalidArgument, "convolution",
                "the parts of a layout differ in their spatial axes", "the same number in each",
                fmt::format("\"{}\"", layout));
  return {operand.first, operand.second,  kernel.first,   kernel.second, result.first,
          result.second, operand.spatial, kernel.spatial, result.spatial};
}

bool get_bool(const AttrMap& attrs, std::string_view key) { return get<bool>(attrs, key, "true or false"); }
std::int64_t get_int(const AttrMap& attrs, std::string_view key) {
  return get<std::int64_t>(attrs, key, "an integer");
}
double get_double(const AttrMap& attrs, std::string_view key) {
  const auto it = attrs.find(key);
  if (it != attrs.end())
    if (const auto* integer = std::get_if<std::int64_t>(&it->second)) return static_cast<double>(*integer);
  return get<double>(attrs, key, "a number");
}
const std::string& get_string(const AttrMap& attrs, std::string_view key) {
  return get<std::string>(attrs, key, "a string");
}
DType get_dtype(const AttrMap& attrs, std::string_view key) { return get<DType>(attrs, key, "a dtype"); }
Shape get_shape(const AttrMap& attrs, std::string_view key) {
  const auto it = attrs.find(key);
  if (it != attrs.end())
    if (const auto* ints = std::get_if<Ints>(&it->second)) return Shape(*ints);
  return get<Shape>(attrs, key, "a shape");
}
const Ints& get_ints(const AttrMap& attrs, std::string_view key) {
  return get<Ints>(attrs, key, "a list of integers");
}

bool CompositeAttrs::operator==(const CompositeAttrs&) const = default;

// The variant lives in the bytes of an Attrs.
struct AttrsAccess {
  static AttrsVariant& of(Attrs& attrs) {
    return *std::launder(reinterpret_cast<AttrsVariant*>(attrs.variant_));
  }
  static const AttrsVariant& of(const Attrs& attrs) { return of(const_cast<Attrs&>(attrs)); }
  template <class... Args>
  static void make(Attrs& attrs, Args&&... args) {
    static_assert(sizeof(AttrsVariant) <= sizeof(Attrs) && alignof(AttrsVariant) <= alignof(Attrs));
    new (static_cast<void*>(attrs.variant_)) AttrsVariant(std::forward<Args>(args)...);
  }
};

const AttrsVariant& variant(const Attrs& attrs) { return AttrsAccess::of(attrs); }
AttrsVariant& variant(Attrs& attrs) { return AttrsAccess::of(attrs); }

Attrs::Attrs() { AttrsAccess::make(*this); }
Attrs::Attrs(const Attrs& other) { AttrsAccess::make(*this, variant(other)); }
Attrs::Attrs(Attrs&& other) noexcept { AttrsAccess::make(*this, std::move(variant(other))); }
Attrs& Attrs::operator=(const Attrs& other) {
  variant(*this) = variant(other);
  return *this;
}
Attrs& Attrs::operator=(Attrs&& other) noexcept {
  variant(*this) = std::move(variant(other));
  return *this;
}
Attrs::~Attrs() { std::destroy_at(&variant(*this)); }

std::size_t Attrs::index() const { return variant(*this).index(); }

bool operator==(const Attrs& a, const Attrs& b) { return variant(a) == variant(b); }

template <OpAttrs A>
Attrs::Attrs(A attrs) {
  AttrsAccess::make(*this, std::in_place_type<A>, std::move(attrs));
}
template <OpAttrs A>
const A* Attrs::get_if() const {
  return std::get_if<A>(&variant(*this));
}
template <OpAttrs A>
A* Attrs::get_if() {
  return std::get_if<A>(&variant(*this));
}
template <OpAttrs A>
const A& Attrs::get() const {
  if (const A* attrs = get_if<A>()) return *attrs;
  throw Error(ErrorKind::kInternal, "attributes", "of another op than the one asked for");
}
template <OpAttrs A>
A& Attrs::get() {
  return const_cast<A&>(std::as_const(*this).get<A>());
}

#define SYSTOLE_ATTRS(A)                                  \
  template SYSTOLE_API Attrs::Attrs(A);                   \
  template SYSTOLE_API const A* Attrs::get_if<A>() const; \
  template SYSTOLE_API A* Attrs::get_if<A>();             \
  template SYSTOLE_API const A& Attrs::get<A>() const;    \
  template SYSTOLE_API A& Attrs::get<A>();
SYSTOLE_ATTRS(NoAttrs)
SYSTOLE_ATTRS(InputAttrs)
SYSTOLE_ATTRS(ConstantAttrs)
SYSTOLE_ATTRS(IotaAttrs)
SYSTOLE_ATTRS(DimensionAttrs)
SYSTOLE_ATTRS(RandomBitsAttrs)
SYSTOLE_ATTRS(ConvertAttrs)
SYSTOLE_ATTRS(ReshapeAttrs)
SYSTOLE_ATTRS(TransposeAttrs)
SYSTOLE_ATTRS(BroadcastAttrs)
SYSTOLE_ATTRS(SliceAttrs)
SYSTOLE_ATTRS(PadAttrs)
SYSTOLE_ATTRS(AxisAttrs)
SYSTOLE_ATTRS(AxesAttrs)
SYSTOLE_ATTRS(GatherAttrs)
SYSTOLE_ATTRS(ScatterAttrs)
SYSTOLE_ATTRS(DynamicSliceAttrs)
SYSTOLE_ATTRS(ReduceAttrs)
SYSTOLE_ATTRS(ArgReduceAttrs)
SYSTOLE_ATTRS(WindowAttrs)
SYSTOLE_ATTRS(CumulativeAttrs)
SYSTOLE_ATTRS(SortAttrs)
SYSTOLE_ATTRS(TopKAttrs)
SYSTOLE_ATTRS(DotAttrs)
SYSTOLE_ATTRS(ConvolutionAttrs)
SYSTOLE_ATTRS(CholeskyAttrs)
SYSTOLE_ATTRS(TriangularSolveAttrs)
SYSTOLE_ATTRS(ScanAttrs)
SYSTOLE_ATTRS(WhileAttrs)
SYSTOLE_ATTRS(CompositeAttrs)
SYSTOLE_ATTRS(AllReduceAttrs)
SYSTOLE_ATTRS(AllGatherAttrs)
SYSTOLE_ATTRS(ReduceScatterAttrs)
SYSTOLE_ATTRS(AllToAllAttrs)
SYSTOLE_ATTRS(PermuteAttrs)
SYSTOLE_ATTRS(MeshAxesAttrs)
SYSTOLE_ATTRS(KernelAttrs)
#undef SYSTOLE_ATTRS

}  // namespace systole::ir
