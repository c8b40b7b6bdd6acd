#pragma once

// The typed attributes of every op. A struct names its fields once, in fields(); printing, parsing, hashing
// and comparison all walk that list. A field that equals its default is not printed.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "systole/base/literal.h"
#include "systole/base/shape.h"

namespace systole::ir {

// How elements are combined; `set` is for scatter only.
enum class Combine : std::uint8_t { set, sum, prod, max, min, bitwise_and, bitwise_or };
inline constexpr std::string_view kCombineNames[] = {"set", "sum",         "prod",      "max",
                                                     "min", "bitwise_and", "bitwise_or"};

struct NoAttrs {
  template <class V>
  static void fields(V&&) {}
  bool operator==(const NoAttrs&) const = default;
};

struct InputAttrs {
  std::string name;
  std::int64_t alias = -1;  // the output of equal type that may take a donated input's memory; -1: none
  template <class V>
  static void fields(V&& v) {
    v("name", &InputAttrs::name);
    v("alias", &InputAttrs::alias);
  }
  bool operator==(const InputAttrs&) const = default;
};

struct ConstantAttrs {
  Literal value;
  template <class V>
  static void fields(V&& v) {
    v("value", &ConstantAttrs::value);
  }
  bool operator==(const ConstantAttrs& o) const { return value.same_bits(o.value); }
};

struct IotaAttrs {
  DType dtype = DType::i32;
  Shape shape;
  std::int64_t axis = 0;
  template <class V>
  static void fields(V&& v) {
    v("dtype", &IotaAttrs::dtype);
    v("shape", &IotaAttrs::shape);
    v("axis", &IotaAttrs::axis);
  }
  bool operator==(const IotaAttrs&) const = default;
};

struct DimensionAttrs {
  Dim dim;
  DType dtype = DType::i32;
  template <class V>
  static void fields(V&& v) {
    v("dim", &DimensionAttrs::dim);
    v("dtype", &DimensionAttrs::dtype);
  }
  bool operator==(const DimensionAttrs&) const = default;
};

struct RandomBitsAttrs {
  DType dtype = DType::u32;
  Shape shape;
  template <class V>
  static void fields(V&& v) {
    v("dtype", &RandomBitsAttrs::dtype);
    v("shape", &RandomBitsAttrs::shape);
  }
  bool operator==(const RandomBitsAttrs&) const = default;
};

struct ConvertAttrs {
  DType dtype = DType::f32;
  template <class V>
  static void fields(V&& v) {
    v("dtype", &ConvertAttrs::dtype);
  }
  bool operator==(const ConvertAttrs&) const = default;
};

struct ReshapeAttrs {
  Shape shape;
  template <class V>
  static void fields(V&& v) {
    v("shape", &ReshapeAttrs::shape);
  }
  bool operator==(const ReshapeAttrs&) const = default;
};

struct TransposeAttrs {
  Ints permutation;
  template <class V>
  static void fields(V&& v) {
    v("permutation", &TransposeAttrs::permutation);
  }
  bool operator==(const TransposeAttrs&) const = default;
};

struct BroadcastAttrs {
  Shape shape;
  Ints axes;
  template <class V>
  static void fields(V&& v) {
    v("shape", &BroadcastAttrs::shape);
    v("axes", &BroadcastAttrs::axes);
  }
  bool operator==(const BroadcastAttrs&) const = default;
};

struct SliceAttrs {
  Ints starts;
  Shape limits;  // may be symbolic: all of a batch axis, or as many rows as another axis has
  Ints strides;
  template <class V>
  static void fields(V&& v) {
    v("starts", &SliceAttrs::starts);
    v("limits", &SliceAttrs::limits);
    v("strides", &SliceAttrs::strides);
  }
  bool operator==(const SliceAttrs&) const = default;
};

struct PadAttrs {
  Ints low, high, interior;
  template <class V>
  static void fields(V&& v) {
    v("low", &PadAttrs::low);
    v("high", &PadAttrs::high);
    v("interior", &PadAttrs::interior);
  }
  bool operator==(const PadAttrs&) const = default;
};

struct AxisAttrs {
  std::int64_t axis = 0;
  template <class V>
  static void fields(V&& v) {
    v("axis", &AxisAttrs::axis);
  }
  bool operator==(const AxisAttrs&) const = default;
};

struct AxesAttrs {
  Ints axes;
  template <class V>
  static void fields(V&& v) {
    v("axes", &AxesAttrs::axes);
  }
  bool operator==(const AxesAttrs&) const = default;
};

struct GatherAttrs {
  Ints offset_axes;                    // result axes that hold the slices
  Ints collapsed_axes;                 // axes of x, of slice size 1, that are dropped
  Ints operand_batch_axes;             // axes of x that go with …
  Ints index_batch_axes;               // … these axes of indices
  Ints start_index_map;                // axis of x for each component of an index vector
  std::int64_t index_vector_axis = 0;  // the axis of indices that holds the vectors; indices' rank: scalars
  Shape slice_sizes;
  template <class V>
  static void fields(V&& v) {
    v("offset_axes", &GatherAttrs::offset_axes);
    v("collapsed_axes", &GatherAttrs::collapsed_axes);
    v("operand_batch_axes", &GatherAttrs::operand_batch_axes);
    v("index_batch_axes", &GatherAttrs::index_batch_axes);
    v("start_index_map", &GatherAttrs::start_index_map);
    v("index_vector_axis", &GatherAttrs::index_vector_axis);
    v("slice_sizes", &GatherAttrs::slice_sizes);
  }
  bool operator==(const GatherAttrs&) const = default;
};

struct ScatterAttrs {
  Combine combine = Combine::set;
  Ints update_window_axes;  // axes of updates that hold the windows
  Ints inserted_axes;       // axes of x, of window size 1, that updates lack
  Ints operand_batch_axes;
  Ints index_batch_axes;
  Ints index_map;  // axis of x for each component of an index vector
  std::int64_t index_vector_axis = 0;
  bool unique = false;  // a promise that no two windows overlap, which frees the order
  template <class V>
  static void fields(V&& v) {
    v("combine", &ScatterAttrs::combine);
    v("update_window_axes", &ScatterAttrs::update_window_axes);
    v("inserted_axes", &ScatterAttrs::inserted_axes);
    v("operand_batch_axes", &ScatterAttrs::operand_batch_axes);
    v("index_batch_axes", &ScatterAttrs::index_batch_axes);
    v("index_map", &ScatterAttrs::index_map);
    v("index_vector_axis", &ScatterAttrs::index_vector_axis);
    v("unique", &ScatterAttrs::unique);
  }
  bool operator==(const ScatterAttrs&) const = default;
};

struct DynamicSliceAttrs {
  Shape sizes;
  template <class V>
  static void fields(V&& v) {
    v("sizes", &DynamicSliceAttrs::sizes);
  }
  bool operator==(const DynamicSliceAttrs&) const = default;
};

struct ReduceAttrs {
  Combine kind = Combine::sum;
  Ints axes;
  template <class V>
  static void fields(V&& v) {
    v("kind", &ReduceAttrs::kind);
    v("axes", &ReduceAttrs::axes);
  }
  bool operator==(const ReduceAttrs&) const = default;
};

struct ArgReduceAttrs {
  Combine kind = Combine::max;  // max or min
  std::int64_t axis = 0;
  DType dtype = DType::i32;  // of the index: i32 or i64
  template <class V>
  static void fields(V&& v) {
    v("kind", &ArgReduceAttrs::kind);
    v("axis", &ArgReduceAttrs::axis);
    v("dtype", &ArgReduceAttrs::dtype);
  }
  bool operator==(const ArgReduceAttrs&) const = default;
};

// One entry per axis of the operand; strides, base_dilation and window_dilation empty means all 1, padding
// all 0.
struct WindowAttrs {
  Combine kind = Combine::max;
  Ints window, strides, pad_low, pad_high, base_dilation, window_dilation;
  template <class V>
  static void fields(V&& v) {
    v("kind", &WindowAttrs::kind);
    v("window", &WindowAttrs::window);
    v("strides", &WindowAttrs::strides);
    v("pad_low", &WindowAttrs::pad_low);
    v("pad_high", &WindowAttrs::pad_high);
    v("base_dilation", &WindowAttrs::base_dilation);
    v("window_dilation", &WindowAttrs::window_dilation);
  }
  bool operator==(const WindowAttrs&) const = default;
};

struct CumulativeAttrs {
  Combine kind = Combine::sum;
  std::int64_t axis = 0;
  bool reverse = false;
  template <class V>
  static void fields(V&& v) {
    v("kind", &CumulativeAttrs::kind);
    v("axis", &CumulativeAttrs::axis);
    v("reverse", &CumulativeAttrs::reverse);
  }
  bool operator==(const CumulativeAttrs&) const = default;
};

struct SortAttrs {
  std::int64_t axis = 0;
  bool descending = false;
  template <class V>
  static void fields(V&& v) {
    v("axis", &SortAttrs::axis);
    v("descending", &SortAttrs::descending);
  }
  bool operator==(const SortAttrs&) const = default;
};

struct TopKAttrs {
  std::int64_t k = 1;
  template <class V>
  static void fields(V&& v) {
    v("k", &TopKAttrs::k);
  }
  bool operator==(const TopKAttrs&) const = default;
};

struct DotAttrs {
  Ints a_batch, b_batch, a_contract, b_contract;
  std::optional<DType>
      dtype;  // of the result: absent, the operands' own; a wider float; a 32- or 64-bit integer
  template <class V>
  static void fields(V&& v) {
    v("a_batch", &DotAttrs::a_batch);
    v("b_batch", &DotAttrs::b_batch);
    v("a_contract", &DotAttrs::a_contract);
    v("b_contract", &DotAttrs::b_contract);
    v("dtype", &DotAttrs::dtype);
  }
  bool operator==(const DotAttrs&) const = default;
};

// `layout` names the axes of operand, kernel and result: b batch, f feature, i kernel input, o kernel output,
// digits spatial; "b01f_01io->b01f" is NHWC with HWIO. Lists have one entry per spatial axis in digit order;
// strides and dilations empty means all 1, padding all 0, reverse all false.
struct ConvolutionAttrs {
  std::string layout;
  Ints strides, pad_low, pad_high, operand_dilation, kernel_dilation;
  Ints reverse;  // 1: the kernel is flipped along this axis
  std::int64_t feature_groups = 1, batch_groups = 1;
  std::optional<DType> dtype;  // of the result, as for dot_general
  template <class V>
  static void fields(V&& v) {
    v("layout", &ConvolutionAttrs::layout);
    v("strides", &ConvolutionAttrs::strides);
    v("pad_low", &ConvolutionAttrs::pad_low);
    v("pad_high", &ConvolutionAttrs::pad_high);
    v("operand_dilation", &ConvolutionAttrs::operand_dilation);
    v("kernel_dilation", &ConvolutionAttrs::kernel_dilation);
    v("reverse", &ConvolutionAttrs::reverse);
    v("feature_groups", &ConvolutionAttrs::feature_groups);
    v("batch_groups", &ConvolutionAttrs::batch_groups);
    v("dtype", &ConvolutionAttrs::dtype);
  }
  bool operator==(const ConvolutionAttrs&) const = default;
};

// ConvolutionAttrs::layout, decoded: which axis of each array plays which role.
struct ConvolutionAxes {
  std::int64_t operand_batch, operand_feature, kernel_input, kernel_output, result_batch, result_feature;
  Ints operand_spatial, kernel_spatial, result_spatial;
};
SYSTOLE_API ConvolutionAxes parse_convolution_layout(std::string_view layout);  // throws kInvalidArgument

struct CholeskyAttrs {
  bool lower = true;
  template <class V>
  static void fields(V&& v) {
    v("lower", &CholeskyAttrs::lower);
  }
  bool operator==(const CholeskyAttrs&) const = default;
};

struct TriangularSolveAttrs {
  bool left_side = true, lower = true, unit_diagonal = false, transpose_a = false;
  template <class V>
  static void fields(V&& v) {
    v("left_side", &TriangularSolveAttrs::left_side);
    v("lower", &TriangularSolveAttrs::lower);
    v("unit_diagonal", &TriangularSolveAttrs::unit_diagonal);
    v("transpose_a", &TriangularSolveAttrs::transpose_a);
  }
  bool operator==(const TriangularSolveAttrs&) const = default;
};

struct ScanAttrs {
  Dim length;
  std::int64_t carries = 0;  // operands 0 … carries-1
  std::int64_t xs = 0;       // the next operands; the rest are constants
  bool reverse = false;
  bool remat = false;  // reverse-mode recomputes the body instead of keeping its residuals
  template <class V>
  static void fields(V&& v) {
    v("length", &ScanAttrs::length);
    v("carries", &ScanAttrs::carries);
    v("xs", &ScanAttrs::xs);
    v("reverse", &ScanAttrs::reverse);
    v("remat", &ScanAttrs::remat);
  }
  bool operator==(const ScanAttrs&) const = default;
};

struct WhileAttrs {
  std::int64_t carries = 0;  // operands 0 … carries-1; the rest are constants
  template <class V>
  static void fields(V&& v) {
    v("carries", &WhileAttrs::carries);
  }
  bool operator==(const WhileAttrs&) const = default;
};

// A composite's own attributes are open: a name and one of these.
using AttrValue = std::variant<bool, std::int64_t, double, std::string, DType, Ints, Shape>;
using AttrMap = std::map<std::string, AttrValue, std::less<>>;

struct CompositeAttrs {
  std::string name;
  AttrMap attrs;
  template <class V>
  static void fields(V&& v) {
    v("name", &CompositeAttrs::name);
    v("attrs", &CompositeAttrs::attrs);
  }
  SYSTOLE_API bool operator==(const CompositeAttrs&) const;
};

// Typed access to a composite's attributes; throw kInvalidArgument naming the attribute when absent or of
// another type. An integer is accepted where a double is asked for.
SYSTOLE_API bool get_bool(const AttrMap& attrs, std::string_view key);
SYSTOLE_API std::int64_t get_int(const AttrMap& attrs, std::string_view key);
SYSTOLE_API double get_double(const AttrMap& attrs, std::string_view key);
SYSTOLE_API const std::string& get_string(const AttrMap& attrs, std::string_view key);
SYSTOLE_API DType get_dtype(const AttrMap& attrs, std::string_view key);
SYSTOLE_API const Ints& get_ints(const AttrMap& attrs, std::string_view key);
SYSTOLE_API Shape get_shape(const AttrMap& attrs, std::string_view key);  // a list of integers is one too

using MeshAxisNames = std::vector<std::string>;

struct AllReduceAttrs {
  Combine kind = Combine::sum;
  MeshAxisNames mesh_axes;
  template <class V>
  static void fields(V&& v) {
    v("kind", &AllReduceAttrs::kind);
    v("mesh_axes", &AllReduceAttrs::mesh_axes);
  }
  bool operator==(const AllReduceAttrs&) const = default;
};

struct AllGatherAttrs {
  std::int64_t axis = 0;
  MeshAxisNames mesh_axes;
  template <class V>
  static void fields(V&& v) {
    v("axis", &AllGatherAttrs::axis);
    v("mesh_axes", &AllGatherAttrs::mesh_axes);
  }
  bool operator==(const AllGatherAttrs&) const = default;
};

struct ReduceScatterAttrs {
  Combine kind = Combine::sum;
  std::int64_t axis = 0;
  MeshAxisNames mesh_axes;
  template <class V>
  static void fields(V&& v) {
    v("kind", &ReduceScatterAttrs::kind);
    v("axis", &ReduceScatterAttrs::axis);
    v("mesh_axes", &ReduceScatterAttrs::mesh_axes);
  }
  bool operator==(const ReduceScatterAttrs&) const = default;
};

struct AllToAllAttrs {
  std::int64_t split_axis = 0, concat_axis = 0;
  MeshAxisNames mesh_axes;
  template <class V>
  static void fields(V&& v) {
    v("split_axis", &AllToAllAttrs::split_axis);
    v("concat_axis", &AllToAllAttrs::concat_axis);
    v("mesh_axes", &AllToAllAttrs::mesh_axes);
  }
  bool operator==(const AllToAllAttrs&) const = default;
};

struct PermuteAttrs {
  MeshAxisNames mesh_axes;
  Ints sources, targets;
  template <class V>
  static void fields(V&& v) {
    v("mesh_axes", &PermuteAttrs::mesh_axes);
    v("sources", &PermuteAttrs::sources);
    v("targets", &PermuteAttrs::targets);
  }
  bool operator==(const PermuteAttrs&) const = default;
};

struct MeshAxesAttrs {
  MeshAxisNames mesh_axes;
  template <class V>
  static void fields(V&& v) {
    v("mesh_axes", &MeshAxesAttrs::mesh_axes);
  }
  bool operator==(const MeshAxesAttrs&) const = default;
};

struct KernelAttrs {
  std::string name{};                 // the entry point
  std::string c{}, cuda{}, opencl{};  // per dialect; S_COUNT is the count of result 0; empty: none
  std::vector<Type> results{};
  Ints grid{}, block{};  // of the launch; empty: such that there is a thread for each element of result 0
  std::int64_t shared_bytes = 0;
  template <class V>
  static void fields(V&& v) {
    v("name", &KernelAttrs::name);
    v("c", &KernelAttrs::c);
    v("cuda", &KernelAttrs::cuda);
    v("opencl", &KernelAttrs::opencl);
    v("results", &KernelAttrs::results);
    v("grid", &KernelAttrs::grid);
    v("block", &KernelAttrs::block);
    v("shared_bytes", &KernelAttrs::shared_bytes);
  }
  bool operator==(const KernelAttrs&) const = default;
};

template <class... As>
struct AttrsList {};
using AllAttrs =
    AttrsList<NoAttrs, InputAttrs, ConstantAttrs, IotaAttrs, DimensionAttrs, RandomBitsAttrs, ConvertAttrs,
              ReshapeAttrs, TransposeAttrs, BroadcastAttrs, SliceAttrs, PadAttrs, AxisAttrs, AxesAttrs,
              GatherAttrs, ScatterAttrs, DynamicSliceAttrs, ReduceAttrs, ArgReduceAttrs, WindowAttrs,
              CumulativeAttrs, SortAttrs, TopKAttrs, DotAttrs, ConvolutionAttrs, CholeskyAttrs,
              TriangularSolveAttrs, ScanAttrs, WhileAttrs, CompositeAttrs, AllReduceAttrs, AllGatherAttrs,
              ReduceScatterAttrs, AllToAllAttrs, PermuteAttrs, MeshAxesAttrs, KernelAttrs>;

namespace detail {
template <class A>
struct AttrsTag {};
template <class List>
struct AttrsTags;
template <class... As>
struct AttrsTags<AttrsList<As...>> : AttrsTag<As>... {
  static constexpr std::size_t bytes = [] {
    std::size_t most = 0;
    ((most = sizeof(As) > most ? sizeof(As) : most), ...);
    return most;
  }();
};
}  // namespace detail

template <class A>
concept OpAttrs = std::is_base_of_v<detail::AttrsTag<A>, detail::AttrsTags<AllAttrs>>;

// One of the structs above. attrs_variant.h shows it as a std::variant, for std::visit; that header is apart
// because instantiating a variant of so many alternatives takes a tenth of the time of compiling systole.h.
class SYSTOLE_API Attrs {
 public:
  Attrs();
  Attrs(const Attrs&);
  Attrs(Attrs&&) noexcept;
  Attrs& operator=(const Attrs&);
  Attrs& operator=(Attrs&&) noexcept;
  ~Attrs();
  template <OpAttrs A>
  Attrs(A attrs);

  // Null when it is another struct.
  template <OpAttrs A>
  const A* get_if() const;
  template <OpAttrs A>
  A* get_if();
  // Throws kInternal when it is another struct.
  template <OpAttrs A>
  const A& get() const;
  template <OpAttrs A>
  A& get();
  std::size_t index() const;  // place in AllAttrs

  friend SYSTOLE_API bool operator==(const Attrs&, const Attrs&);

 private:
  friend struct AttrsAccess;
  alignas(8) unsigned char variant_[detail::AttrsTags<AllAttrs>::bytes + 8];
};

}  // namespace systole::ir
