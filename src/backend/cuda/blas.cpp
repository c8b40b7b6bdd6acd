#include "backend/cuda/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "backend/cuda/libraries.h"
#include "backend/cuda/product.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

// cublasLt.h, as far as it is used. tests/cuda compares the numbers with the header where there is one.
using Handle = struct HandleObject*;
using Description = struct DescriptionObject*;
using Layout = struct LayoutObject*;
using Preference = struct PreferenceObject*;

struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

enum : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBiasType = 26,
  kBatchCount = 5,
  kBatchOffset = 6,
  kMostWorkspace = 1,
  kNothingOnResult = 1,
  kRelu = 2,
  kBias = 4,
  kCompute32F = 68,
  kCompute32FTf32 = 77,
  kCompute64F = 70,
};

struct Api {
  int (*create)(Handle*) = nullptr;
  std::size_t (*version)() = nullptr;
  const char* (*words)(int) = nullptr;
  int (*new_description)(Description*, int, int) = nullptr;
  int (*set_description)(Description, int, const void*, std::size_t) = nullptr;
  int (*free_description)(Description) = nullptr;
  int (*new_layout)(Layout*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*set_layout)(Layout, int, const void*, std::size_t) = nullptr;
  int (*free_layout)(Layout) = nullptr;
  int (*new_preference)(Preference*) = nullptr;
  int (*set_preference)(Preference, int, const void*, std::size_t) = nullptr;
  int (*free_preference)(Preference) = nullptr;
  int (*heuristic)(Handle, Description, Layout, Layout, Layout, Layout, Preference, int, Heuristic*,
                   int*) = nullptr;
  int (*multiply)(Handle, Description, const void*, const void*, Layout, const void*, Layout, const void*,
                  const void*, Layout, void*, Layout, const Algorithm*, void*, std::size_t, Stream) = nullptr;
};

struct Found {
  Api api;
  std::string absence;
};

std::string load(Api& api) {
  std::string absence;
  void* const library = open_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                                     {"nvidia/cu13/lib", "nvidia/cublas/lib"}, absence);
  if (library == nullptr) return absence;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  const bool complete =
      find(api.create, "cublasLtCreate") && find(api.version, "cublasLtGetVersion") &&
      find(api.words, "cublasLtGetStatusString") && find(api.new_description, "cublasLtMatmulDescCreate") &&
      find(api.set_description, "cublasLtMatmulDescSetAttribute") &&
      find(api.free_description, "cublasLtMatmulDescDestroy") &&
      find(api.new_layout, "cublasLtMatrixLayoutCreate") &&
      find(api.set_layout, "cublasLtMatrixLayoutSetAttribute") &&
      find(api.free_layout, "cublasLtMatrixLayoutDestroy") &&
      find(api.new_preference, "cublasLtMatmulPreferenceCreate") &&
      find(api.set_preference, "cublasLtMatmulPreferenceSetAttribute") &&
      find(api.free_preference, "cublasLtMatmulPreferenceDestroy") &&
      find(api.heuristic, "cublasLtMatmulAlgoGetHeuristic") && find(api.multiply, "cublasLtMatmul");
  return complete ? "" : "libcublasLt.so is not one that is known: CUDA 12 or newer is needed";
}

const Found& found() {
  static const Found only = [] {
    Found made;
    made.absence = load(made.api);
    return made;
  }();
  return only;
}

const Api& blas() { return found().api; }

void check_blas(int status, const char* call) {
  if (status == 0) return;
  throw Error(status == 3 ? ErrorKind::kOutOfMemory : ErrorKind::kInternal, "cublasLt",
              fmt::format("{}: {}", call, blas().words(status)));
}

Handle handle_of(const Device& device) {
  static std::mutex mutex;
  static std::vector<Handle> handles;  // by ordinal
  const std::lock_guard lock(mutex);
  const auto i = static_cast<std::size_t>(device.ordinal());
  if (handles.size() <= i) handles.resize(i + 1, nullptr);
  if (handles[i] == nullptr) check_blas(blas().create(&handles[i]), "cublasLtCreate");
  return handles[i];
}

int type_number(DType dtype) {
  switch (dtype) {
    case DType::f32: return 0;
    case DType::f64: return 1;
    case DType::f16: return 2;
    case DType::bf16: return 14;
    default: return -1;
  }
}

// What stands on the product's result, when it is what the library has.
struct OnResult {
  int epilogue = kNothingOnResult;
  std::int32_t bias = -1;  // among the region's inputs
};

std::string read_on_result(const lower::Region& region, OnResult& out) {
  const ir::Graph& graph = region.graph;
  ir::ValueId last{region.anchor, 0};
  const Shape& shape = graph.type(last).shape;
  for (std::int32_t i = region.anchor + 1; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(i);
    if (node.op == ir::Op::broadcast || node.op == ir::Op::constant || node.op == ir::Op::reshape) continue;
    if (node.op != ir::Op::add || out.bias >= 0) return "cublasLt has no such work on the result";
    const bool first = node.operands[0] == last;
    if (!first && !(node.operands[1] == last)) return "cublasLt has no such work on the result";
    const ir::Node& other = graph.node(node.operands[first ? 1 : 0].node);
    if (other.op != ir::Op::broadcast) return "the sum is no bias";
    const auto& repeated = other.as<ir::BroadcastAttrs>();
    const ir::Node& bias = graph.node(other.operands[0].node);
    if (bias.op != ir::Op::input || bias.types[0].shape.rank() != 1 || repeated.axes.size() != 1 ||
        repeated.axes[0] != static_cast<std::int64_t>(shape.rank()) - 1)
      return "the sum is no bias of the columns";
    if (bias.types[0].dtype != graph.type(last).dtype) return "the bias has another dtype";
    out.bias = static_cast<std::int32_t>(
        std::find(graph.inputs().begin(), graph.inputs().end(), other.operands[0].node) -
        graph.inputs().begin());
    out.epilogue = kBias;
    last = {i, 0};
  }
  if (graph.outputs().size() != 1 || !(graph.outputs()[0].value == last))
    return "the product itself is wanted too";
  return {};
}

std::string read(const lower::Region& region, Product& product, OnResult& on_result) {
  if (!found().absence.empty()) return found().absence;
  if (std::string reason = read_product(region, product); !reason.empty()) return reason;
  if (type_number(product.operands) < 0 || type_number(product.result) < 0)
    return fmt::format("no products of {}", systole::name(product.operands));
  const bool widens = product.result == DType::f32 && product.operands != DType::f64;
  if (product.result != product.operands && !widens) return "no such dtype of the result";
  const auto& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  if (graph.type(node.operands[1]).dtype != product.operands) return "operands of two dtypes";
  return read_on_result(region, on_result);
}

constexpr std::size_t kWorkspace = std::size_t{32} << 20;

class Multiplication final : public LibraryCall {
 public:
  Multiplication(const Device& device, const Product& product, const OnResult& on_result, runtime::Math math)
      : handle_(handle_of(device)),
        product_(product),
        on_result_(on_result),
        is_double_(product.operands == DType::f64) {
    const int compute = is_double_                                                      ? kCompute64F
                        : product.operands == DType::f32 && math == runtime::Math::tf32 ? kCompute32FTf32
                                                                                        : kCompute32F;
    check_blas(blas().new_description(&description_, compute, is_double_ ? 1 : 0),
               "cublasLtMatmulDescCreate");
    // Columns first: the library computes the transposed result, (B^T) · (A^T), columns × rows.
    const Matrix &a = product.a, &b = product.b;
    const int transpose_b = b.free_stride == 1 ? 0 : 1, transpose_a = a.contract_stride == 1 ? 0 : 1;
    set(kTransposeA, transpose_b);
    set(kTransposeB, transpose_a);
    const int operand = type_number(product.operands);
    first_ = b.free_stride == 1
                 ? layout(operand, product.columns, product.depth, b.contract_stride, b.batch_stride)
                 : layout(operand, product.depth, product.columns, b.free_stride, b.batch_stride);
    second_ = a.contract_stride == 1
                  ? layout(operand, product.depth, product.rows, a.free_stride, a.batch_stride)
                  : layout(operand, product.rows, product.depth, a.contract_stride, a.batch_stride);
    result_ = layout(type_number(product.result), product.columns, product.rows, product.columns,
                     product.rows * product.columns);
    if (on_result.epilogue != kNothingOnResult) {
      set(kEpilogue, on_result.epilogue);
      set(kBiasType, type_number(product.result));
    }
    choose();
  }
  ~Multiplication() override {
    for (const Layout each : {first_, second_, result_})
      if (each != nullptr) blas().free_layout(each);
    if (description_ != nullptr) blas().free_description(description_);
  }

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address workspace) const override {
    if (on_result_.bias >= 0) {
      const std::lock_guard lock(mutex_);  // the description is shared
      const Address bias = inputs[static_cast<std::size_t>(on_result_.bias)];
      check_blas(blas().set_description(description_, kBiasPointer, &bias, sizeof bias),
                 "cublasLtMatmulDescSetAttribute");
      multiply(stream, inputs, outputs, workspace);
      return;
    }
    multiply(stream, inputs, outputs, workspace);
  }

 private:
  void set(int attribute, int value) {
    check_blas(blas().set_description(description_, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
  }

  Layout layout(int type, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                std::int64_t batch_stride) {
    Layout made = nullptr;
    check_blas(blas().new_layout(&made, type, static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), std::max(stride, rows)),
               "cublasLtMatrixLayoutCreate");
    const auto batch = static_cast<std::int32_t>(product_.batch);
    check_blas(blas().set_layout(made, kBatchCount, &batch, sizeof batch),
               "cublasLtMatrixLayoutSetAttribute");
    check_blas(blas().set_layout(made, kBatchOffset, &batch_stride, sizeof batch_stride),
               "cublasLtMatrixLayoutSetAttribute");
    return made;
  }

  void choose() {
    Preference preference = nullptr;
    check_blas(blas().new_preference(&preference), "cublasLtMatmulPreferenceCreate");
    const std::size_t workspace = kWorkspace;
    blas().set_preference(preference, kMostWorkspace, &workspace, sizeof workspace);
    int count = 0;
    const int status = blas().heuristic(handle_, description_, first_, second_, result_, result_, preference,
                                        1, &chosen_, &count);
    blas().free_preference(preference);
    check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) throw Error(ErrorKind::kUnsupported, "cublasLt", "no algorithm for this product");
  }

  void multiply(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
                Address workspace) const {
    const auto size = static_cast<std::int64_t>(size_of(product_.operands)),
               result_size = static_cast<std::int64_t>(size_of(product_.result));
    const double one_d = 1, zero_d = 0;
    const float one = 1, zero = 0;
    const void* const alpha = is_double_ ? static_cast<const void*>(&one_d) : &one;
    const void* const beta = is_double_ ? static_cast<const void*>(&zero_d) : &zero;
    for (std::int64_t o = 0; o < product_.outer; ++o) {
      const auto place = [&](const Matrix& m) {
        return reinterpret_cast<const void*>(inputs[m.input] +
                                             static_cast<Address>((m.offset + o * m.outer_stride) * size));
      };
      void* const to =
          reinterpret_cast<void*>(outputs[0] + static_cast<Address>(o * product_.batch * product_.rows *
                                                                    product_.columns * result_size));
      check_blas(blas().multiply(handle_, description_, alpha, place(product_.b), first_, place(product_.a),
                                 second_, beta, to, result_, to, result_, &chosen_.algorithm,
                                 reinterpret_cast<void*>(workspace), chosen_.workspace, stream),
                 "cublasLtMatmul");
    }
  }

  const Handle handle_;
  const Product product_;
  const OnResult on_result_;
  const bool is_double_;
  Description description_ = nullptr;
  Layout first_ = nullptr, second_ = nullptr, result_ = nullptr;
  Heuristic chosen_{};
  mutable std::mutex mutex_;
};

}  // namespace

std::string blas_absence() { return found().absence; }

lower::Claim blas_offer(const lower::Region& region, runtime::Math) {
  Product product;
  OnResult on_result;
  if (std::string reason = read(region, product, on_result); !reason.empty())
    return lower::Claim::declined("cublasLt: " + reason);
  return {on_result.bias >= 0 ? "cublasLt.matmul_bias" : "cublasLt.matmul",
          {},
          10,
          static_cast<std::int64_t>(kWorkspace)};
}

std::shared_ptr<const LibraryCall> blas_call(const Device& device, const lower::Region& region,
                                             runtime::Math math) {
  Product product;
  OnResult on_result;
  if (std::string reason = read(region, product, on_result); !reason.empty())
    throw Error(ErrorKind::kInternal, "cublasLt", reason);
  return std::make_shared<Multiplication>(device, product, on_result, math);
}

}  // namespace systole::cuda
