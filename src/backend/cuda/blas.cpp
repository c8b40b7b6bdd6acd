#include "backend/cuda/blas.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <vector>

#include "backend/cuda/blas_api.h"
#include "backend/cuda/preferences.h"
#include "backend/cuda/tuning.h"
#include "backend/patterns/epilogues.h"
#include "backend/patterns/on_result.h"
#include "backend/patterns/product.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using namespace lt;

constexpr std::size_t kMostWorkspaceBytes = std::size_t{64} << 20;
constexpr int kMostAlgorithms = 8;
constexpr std::int64_t kLargestAlignment = 256;

// A product as the library is asked for it.
struct Problem {
  Product product;
  OnResult on_result;
  std::vector<std::int64_t> inputs, outputs;  // bytes of the region's
};

std::string read(const lower::Region& region, Problem& out) {
  if (!lt::absence().empty()) return lt::absence();
  const ir::Graph& graph = region.graph;
  Product& product = out.product;
  if (std::string reason = read_product(region, product); !reason.empty()) return reason;
  const DType second = graph.type(graph.node(region.anchor).operands[1]).dtype;
  if (second != product.operands) return "operands of two dtypes";
  if (std::string reason = read_on_result(region, product, out.on_result); !reason.empty()) return reason;
  if (type_number(product.operands) < 0 || type_number(product.result) < 0)
    return fmt::format("no products of {}", systole::name(product.operands));
  const bool widens = product.result == DType::f32 && product.operands != DType::f64;
  if (product.result != product.operands && !widens) return "no such dtype of the result";
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) out.inputs.push_back(graph.input_type(i).bytes());
  for (const ir::Output& output : graph.outputs()) out.outputs.push_back(graph.type(output.value).bytes());
  return {};
}

int epilogue_of(const OnResult& work) {
  int epilogue = 0;
  if (work.bias >= 0) epilogue |= kBias;
  if (work.function == Pointwise::relu) epilogue |= kRelu;
  if (work.function == Pointwise::gelu) epilogue |= work.before >= 0 ? kGelu | kAux : kGelu;
  if (work.function == Pointwise::gelu_gradient) epilogue |= kGeluGradient;
  if (work.row_sum >= 0) epilogue |= kBiasGradient;
  // The library's first operand is our second.
  if (work.operand_sum >= 0) epilogue |= work.summed == 0 ? kSumOfB : kSumOfA;
  return epilogue == 0 ? kNothingOnResult : epilogue;
}

class Multiplication final : public LibraryCall {
 public:
  Multiplication(const Device& device, Problem problem, const BlasWishes& wishes)
      : handle_(handle(device)),
        problem_(std::move(problem)),
        product_(problem_.product),
        work_(problem_.on_result),
        is_double_(product_.operands == DType::f64),
        math_(product_.operands == DType::f32 ? wishes.math : runtime::Math::f32) {
    try {
      describe();
      propose();
      choose(device, wishes);
    } catch (...) {
      release();
      throw;
    }
  }
  ~Multiplication() override { release(); }
  Multiplication(const Multiplication&) = delete;
  Multiplication& operator=(const Multiplication&) = delete;

  std::int64_t workspace() const { return static_cast<std::int64_t>(chosen().workspace); }
  double seconds() const { return answer_.seconds; }  // 0: not measured
  std::string work() const { return work_.text(); }
  bool sums_operand() const { return work_.operand_sum >= 0; }

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address workspace) const override {
    run(chosen(), stream, inputs, outputs, workspace);
  }

  // "16384x768x3072 bf16+bias+gelu"
  std::string name() const {
    const std::int64_t batches = product_.outer * product_.batch;
    return fmt::format(
        "{}{}x{}x{} {}{}{}", batches == 1 ? "" : fmt::format("{} of ", batches), product_.rows,
        product_.columns, product_.depth, systole::name(product_.operands),
        product_.result == product_.operands ? "" : fmt::format(" to {}", systole::name(product_.result)),
        work_.text());
  }

 private:
  const Heuristic& chosen() const { return proposed_[static_cast<std::size_t>(answer_.choice)]; }

  template <class T>
  void set(int attribute, const T& value) const {
    check(api().set_description(description_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  void describe() {
    const int compute = is_double_                     ? kCompute64F
                        : math_ == runtime::Math::tf32 ? kCompute32FTf32
                                                       : kCompute32F;
    check(api().new_description(&description_, compute, is_double_ ? kTypeF64 : kTypeF32),
          "cublasLtMatmulDescCreate");
    // Columns first: the library computes the transposed result, (B^T) · (A^T), columns × rows.
    const Matrix &a = product_.a, &b = product_.b;
    const int transpose_b = b.free_stride == 1 ? 0 : 1, transpose_a = a.contract_stride == 1 ? 0 : 1;
    set(kTransposeA, transpose_b);
    set(kTransposeB, transpose_a);
    const int operand = type_number(product_.operands), result = type_number(product_.result);
    first_ = b.free_stride == 1
                 ? layout(operand, product_.columns, product_.depth, b.contract_stride, b.batch_stride)
                 : layout(operand, product_.depth, product_.columns, b.free_stride, b.batch_stride);
    second_ = a.contract_stride == 1
                  ? layout(operand, product_.depth, product_.rows, a.free_stride, a.batch_stride)
                  : layout(operand, product_.rows, product_.depth, a.contract_stride, a.batch_stride);
    result_ =
        layout(result, product_.columns, product_.rows, product_.columns, product_.rows * product_.columns);
    const int epilogue = epilogue_of(work_);
    if (epilogue == kNothingOnResult) return;
    set(kEpilogue, epilogue);
    // Heuristics look at how addresses are aligned.
    if (const std::int64_t bytes = vector_bytes(); bytes > 0) {
      set(kBiasType, result);
      set(kBiasPointer, std::gcd(kLargestAlignment, bytes));
    }
    if (work_.before >= 0 || work_.gelu_of >= 0) {
      set(kAuxType, result);
      set(kAuxPointer, std::int64_t{alignment_of_result(result_bytes())});
      set(kAuxStride, product_.columns);
      set(kAuxBatchStride, product_.rows * product_.columns);
    }
  }
  // Of a bias or its gradient; 0 where there is none.
  std::int64_t vector_bytes() const {
    if (work_.bias >= 0) return problem_.inputs[static_cast<std::size_t>(work_.bias)];
    const std::int32_t sum = work_.row_sum >= 0 ? work_.row_sum : work_.operand_sum;
    return sum >= 0 ? problem_.outputs[static_cast<std::size_t>(sum)] : 0;
  }
  std::int64_t result_bytes() const { return problem_.outputs[static_cast<std::size_t>(work_.result)]; }

  Layout layout(int type, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                std::int64_t batch_stride) {
    Layout made = nullptr;
    check(api().new_layout(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                           std::max(stride, rows)),
          "cublasLtMatrixLayoutCreate");
    const auto batch = static_cast<std::int32_t>(product_.batch);
    check(api().set_layout(made, kBatchCount, &batch, sizeof batch), "cublasLtMatrixLayoutSetAttribute");
    check(api().set_layout(made, kBatchOffset, &batch_stride, sizeof batch_stride),
          "cublasLtMatrixLayoutSetAttribute");
    return made;
  }

  // Of every address that a run may bring. Arrays begin at multiples of the largest; a loop's slices follow
  // each other without gaps.
  std::uint32_t alignment(std::int64_t bytes, std::int64_t offset, std::int64_t stride, DType dtype) const {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    std::int64_t common = std::gcd(kLargestAlignment, bytes);
    common = std::gcd(common, offset * size);
    if (product_.outer > 1) common = std::gcd(common, stride * size);
    return static_cast<std::uint32_t>(common);
  }
  std::uint32_t alignment(const Matrix& m) const {
    return alignment(problem_.inputs[m.input], m.offset, m.outer_stride, product_.operands);
  }
  std::uint32_t alignment_of_result(std::int64_t bytes) const {
    return alignment(bytes, 0, product_.batch * product_.rows * product_.columns, product_.result);
  }

  void propose() {
    Preference preference = nullptr;
    check(api().new_preference(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](int attribute, const auto& value) {
      api().set_preference(preference, attribute, &value, sizeof value);
    };
    const std::uint32_t d = alignment_of_result(result_bytes());  // of what is added too
    prefer(kMostWorkspace, kMostWorkspaceBytes);
    prefer(kAlignmentA, alignment(product_.b));
    prefer(kAlignmentB, alignment(product_.a));
    prefer(kAlignmentC, d);
    prefer(kAlignmentD, d);
    proposed_.resize(kMostAlgorithms);
    int count = 0;
    const int status = api().heuristic(handle_, description_, first_, second_, result_, result_, preference,
                                       kMostAlgorithms, proposed_.data(), &count);
    api().free_preference(preference);
    constexpr int kNotSupported = 15, kInvalidValue = 7;  // what it says of combinations that it has not
    if (status != kNotSupported && status != kInvalidValue)
      check(status, "cublasLtMatmulAlgoGetHeuristic");
    else
      count = 0;
    proposed_.resize(static_cast<std::size_t>(count));
    std::erase_if(proposed_, [](const Heuristic& each) { return each.state != 0; });
    if (proposed_.empty()) throw Error(ErrorKind::kUnsupported, "cublasLt", "no algorithm for " + name());
  }

  void choose(const Device& device, const BlasWishes& wishes) {
    const Question question{.name = "cublasLt " + name(),
                            .details = details(),
                            .choice = "algorithm",
                            .count = static_cast<int>(proposed_.size()),
                            .is_measured = !wishes.is_deterministic,
                            .wants_time = true};
    answer_ = best_of(device, question, [&](Stream stream) -> Trial {
      std::vector<std::int64_t> bytes = problem_.inputs;
      bytes.insert(bytes.end(), problem_.outputs.begin(), problem_.outputs.end());
      std::size_t most = 0;
      for (const Heuristic& each : proposed_) most = std::max(most, each.workspace);
      bytes.push_back(static_cast<std::int64_t>(most));
      auto scratch = std::make_shared<const Scratch>(device, stream, bytes);
      return [this, scratch](int choice, Stream on) {
        const std::span<const Address> all(scratch->addresses());
        const std::size_t inputs = problem_.inputs.size();
        run(proposed_[static_cast<std::size_t>(choice)], on, all.subspan(0, inputs),
            all.subspan(inputs, problem_.outputs.size()), all.back());
      };
    });
  }

  // What the choice depends on besides the name.
  std::string details() const {
    const auto text = [](const Matrix& m) {
      return fmt::format("{} {} {} {} {}", m.offset, m.free_stride, m.contract_stride, m.batch_stride,
                         m.outer_stride);
    };
    return fmt::format("version {} math {} outer {} batch {} a {} b {} aligned {} {} {}", api().version(),
                       math_ == runtime::Math::tf32 ? "tf32" : "f32", product_.outer, product_.batch,
                       text(product_.a), text(product_.b), alignment(product_.a), alignment(product_.b),
                       alignment_of_result(result_bytes()));
  }

  void run(const Heuristic& how, Stream stream, std::span<const Address> inputs,
           std::span<const Address> outputs, Address workspace) const {
    if (epilogue_of(work_) == kNothingOnResult) return multiply(how, stream, inputs, outputs, workspace);
    const std::lock_guard lock(mutex_);  // the description is shared
    const auto input = [&](std::int32_t i) { return inputs[static_cast<std::size_t>(i)]; };
    const auto output = [&](std::int32_t i) { return outputs[static_cast<std::size_t>(i)]; };
    if (work_.bias >= 0) set(kBiasPointer, input(work_.bias));
    if (work_.row_sum >= 0) set(kBiasPointer, output(work_.row_sum));
    if (work_.operand_sum >= 0) set(kBiasPointer, output(work_.operand_sum));
    multiply(how, stream, inputs, outputs, workspace);
  }

  void multiply(const Heuristic& how, Stream stream, std::span<const Address> inputs,
                std::span<const Address> outputs, Address workspace) const {
    const auto size = static_cast<std::int64_t>(size_of(product_.operands)),
               result_size = static_cast<std::int64_t>(size_of(product_.result));
    const double scale_d = work_.scale, kept_d = work_.added >= 0 ? 1 : 0;
    const auto scale = static_cast<float>(scale_d), kept = static_cast<float>(kept_d);
    const void* const alpha = is_double_ ? static_cast<const void*>(&scale_d) : &scale;
    const void* const beta = is_double_ ? static_cast<const void*>(&kept_d) : &kept;
    for (std::int64_t o = 0; o < product_.outer; ++o) {
      const auto place = [&](const Matrix& m) {
        return reinterpret_cast<const void*>(inputs[m.input] +
                                             static_cast<Address>((m.offset + o * m.outer_stride) * size));
      };
      const auto passed =
          static_cast<Address>(o * product_.batch * product_.rows * product_.columns * result_size);
      if (work_.before >= 0) set(kAuxPointer, outputs[static_cast<std::size_t>(work_.before)] + passed);
      if (work_.gelu_of >= 0) set(kAuxPointer, inputs[static_cast<std::size_t>(work_.gelu_of)] + passed);
      void* const to = reinterpret_cast<void*>(outputs[static_cast<std::size_t>(work_.result)] + passed);
      const void* const added =
          work_.added < 0
              ? to
              : reinterpret_cast<const void*>(inputs[static_cast<std::size_t>(work_.added)] + passed);
      check(api().multiply(handle_, description_, alpha, place(product_.b), first_, place(product_.a),
                           second_, beta, added, result_, to, result_, &how.algorithm,
                           reinterpret_cast<void*>(workspace), how.workspace, stream),
            "cublasLtMatmul");
    }
  }

  void release() {
    for (const Layout each : {first_, second_, result_})
      if (each != nullptr) api().free_layout(each);
    if (description_ != nullptr) api().free_description(description_);
  }

  const Handle handle_;
  const Problem problem_;
  const Product& product_;
  const OnResult& work_;
  const bool is_double_;
  const runtime::Math math_;
  Description description_ = nullptr;
  Layout first_ = nullptr, second_ = nullptr, result_ = nullptr;
  std::vector<Heuristic> proposed_;
  Answer answer_;
  mutable std::mutex mutex_;
};

// Whether the time goes by starting and waiting rather than multiplying. A generated kernel then takes along
// whatever stands on the result, an optimiser's step too, and saves the kernels of that.
// Generated kernels with tensor cores share out the depth, so that may be larger; and of factors that both
// have their rows side by side, as the gradient of a weight has, they read whole sectors.
bool is_small(const Product& product, bool has_tf32) {
  constexpr std::int64_t kDepth = 128, kSharedDepth = 4096, kProducts = std::int64_t{16} << 20,
                         kTurnedProducts = std::int64_t{64} << 20;
  const bool is_shared = has_tf32 && product.operands == DType::f32;
  const bool is_turned = is_shared && product.a.contract_stride != 1 && product.b.contract_stride != 1;
  return product.depth <= (is_shared ? kSharedDepth : kDepth) &&
         product.outer * product.batch * product.rows * product.columns * product.depth <=
             (is_turned ? kTurnedProducts : kProducts);
}

// Null, and the reason, when the library has no such thing.
std::shared_ptr<const Multiplication> make(const Device& device, const lower::Region& region,
                                           const BlasWishes& wishes, std::string& reason) {
  Problem problem;
  reason = read(flat(region), problem);
  if (reason.empty() &&
      is_small(problem.product, wishes.math == runtime::Math::tf32 && device.capability() >= 80) &&
      !preferred("cublasLt").is_taken)
    reason =
        "small: generated kernels take along what stands on the result; SYSTOLE_CUDA_PREFER=cublasLt takes "
        "it";
  if (!reason.empty()) return nullptr;
  try {
    return std::make_shared<const Multiplication>(device, std::move(problem), wishes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    reason = error.what();
    return nullptr;
  }
}

}  // namespace

std::string blas_absence() { return lt::absence(); }

lower::Claim blas_offer(const Device& device, const lower::Region& region, const BlasWishes& wishes) {
  std::string reason;
  const std::shared_ptr<const Multiplication> made = make(device, region, wishes, reason);
  if (!made) return lower::Claim::declined("cublasLt: " + reason);
  return {"cublasLt.matmul" + made->work(), {}, 10, made->workspace()};
}

std::shared_ptr<const LibraryCall> blas_call(const Device& device, const lower::Region& region,
                                             const BlasWishes& wishes) {
  std::string reason;
  std::shared_ptr<const Multiplication> made = make(device, region, wishes, reason);
  if (!made) throw Error(ErrorKind::kInternal, "cublasLt", reason);
  return made;
}

ir::Graph with_blas_epilogues(const Device& device, const ir::Graph& graph, const BlasWishes& wishes) {
  if (!blas_absence().empty()) return graph;
  const Judge judge = [&](const lower::Region& whole, const lower::Region& bare,
                          std::int64_t saved) -> std::string {
    std::string reason;
    const auto one = make(device, whole, wishes, reason);
    if (!one) return reason;
    const auto two = make(device, bare, wishes, reason);
    if (!two || one->seconds() == 0 || two->seconds() == 0) return {};
    // Of the kernel that is not needed; a sum of an operand goes beside the product when both are short.
    constexpr double kShort = 2e-5;
    const bool is_beside = one->sums_operand() && two->seconds() < kShort;
    const double launch = is_beside ? 0 : 2e-6;
    const double apart = two->seconds() + copy_seconds(device, saved) + launch;
    if (one->seconds() <= apart) return {};
    return fmt::format("{} takes {:.4g} ms, apart they take {:.4g} ms", one->name(), 1e3 * one->seconds(),
                       1e3 * apart);
  };
  return passes::run_passes(with_epilogues(graph, judge), passes::standard_passes());
}

}  // namespace systole::cuda
