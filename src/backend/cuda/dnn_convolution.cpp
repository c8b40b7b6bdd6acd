#include "backend/cuda/dnn_convolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace systole::cuda {

using namespace patterns;

namespace {

using dnn::Object;
using Kind = Convolution::Kind;
using Work = ConvolutionWork::Kind;

// Names of the arrays in a plan. What the work reads and what stays inside follows.
constexpr std::int64_t kX = 1, kW = 2, kY = 3, kFirstRead = 10, kFirstInside = 100;

struct Form {
  dnn::Kind operation;
  dnn::Attribute alpha, beta, convolution, x, w, y;
};
constexpr Form kForms[] = {
    {dnn::kForward, dnn::kForwardAlpha, dnn::kForwardBeta, dnn::kForwardConvolution, dnn::kForwardX,
     dnn::kForwardW, dnn::kForwardY},
    {dnn::kBackwardData, dnn::kDataAlpha, dnn::kDataBeta, dnn::kDataConvolution, dnn::kDataDx, dnn::kDataW,
     dnn::kDataDy},
    {dnn::kBackwardFilter, dnn::kFilterAlpha, dnn::kFilterBeta, dnn::kFilterConvolution, dnn::kFilterX,
     dnn::kFilterDw, dnn::kFilterDy},
};

class Builder {
 public:
  explicit Builder(const DnnConvolution& problem) : p_(problem), c_(problem.convolution) {}

  dnn::Engines engines(dnn::Handle handle) {
    const Form& form = kForms[static_cast<int>(c_.kind)];
    // The result of the convolution itself stays inside when there is work on it.
    const bool has_work = !p_.work.steps.empty();
    const auto array = [&](std::int64_t id, std::int64_t n, std::int64_t c, const Convolution::Pair& hw) {
      if (id != result()) return tensor(id, c_.operands, n, c, hw, false);
      return has_work ? tensor(kFirstInside, DType::f32, n, c, hw, true)
                      : tensor(id, p_.work.output, n, c, hw, false);
    };
    const std::size_t x = add(array(kX, c_.batch, c_.channels, c_.image));
    const std::size_t w = add(array(kW, c_.filters, c_.channels / c_.groups, c_.window));
    const std::size_t y = add(array(kY, c_.batch, c_.filters, c_.result));
    const std::size_t geometry = add(this->geometry());
    Object operation(form.operation);
    const float one = 1, zero = 0;
    const double one_d = 1, zero_d = 0;
    const bool wide = c_.operands == DType::f64;
    const dnn::Type number = wide ? dnn::kDoubleType : dnn::kFloatType;
    operation.set(form.alpha, number, wide ? static_cast<const void*>(&one_d) : &one);
    operation.set(form.beta, number, wide ? static_cast<const void*>(&zero_d) : &zero);
    operation.set_object(form.convolution, parts_[geometry]);
    operation.set_object(form.x, parts_[x]);
    operation.set_object(form.w, parts_[w]);
    operation.set_object(form.y, parts_[y]);
    operation.finalize();
    operations_.push_back(add(std::move(operation)));
    add_work(y);
    return {handle, std::move(parts_), operations_,
            dnn::PlanWishes{.accepts = [wishes = wishes()](const std::vector<int>& notes) {
              return std::none_of(notes.begin(), notes.end(), [&](int note) {
                return std::find(wishes.begin(), wishes.end(), note) != wishes.end();
              });
            }}};
  }

 private:
  std::int64_t result() const {
    return c_.kind == Kind::forward ? kY : c_.kind == Kind::input_grad ? kX : kW;
  }

  std::size_t add(Object part) {
    parts_.push_back(std::move(part));
    return parts_.size() - 1;
  }

  // Dimensions in the order N, C, H, W of an array with its channels last.
  static Object tensor(std::int64_t id, DType dtype, std::int64_t n, std::int64_t c,
                       const Convolution::Pair& hw, bool is_inside) {
    Object made(dnn::kTensor);
    made.set_word(dnn::kTensorType, dnn::kDataTypeType, dnn::type_number(dtype));
    made.set_numbers(dnn::kTensorDimensions, {n, c, hw[0], hw[1]});
    made.set_numbers(dnn::kTensorStrides, {c * hw[0] * hw[1], 1, c * hw[1], c});
    made.set_number(dnn::kTensorId, id);
    made.set_number(dnn::kTensorAlignment,
                    dnn::array_alignment(n * c * hw[0] * hw[1] * static_cast<std::int64_t>(size_of(dtype))));
    if (is_inside) made.set(dnn::kTensorIsVirtual, dnn::kBooleanType, &is_inside);
    made.finalize();
    return made;
  }

  Object geometry() const {
    Object made(dnn::kConvolution);
    made.set_word(dnn::kConvolutionComputeType, dnn::kDataTypeType,
                  c_.operands == DType::f64 ? dnn::kDouble : dnn::kFloat);
    made.set_word(dnn::kConvolutionMode, dnn::kConvolutionModeType, dnn::kCrossCorrelation);
    made.set_number(dnn::kConvolutionSpatialDims, 2);
    const auto list = [](const Convolution::Pair& pair) {
      return std::vector<std::int64_t>(pair.begin(), pair.end());
    };
    made.set_numbers(dnn::kConvolutionDilations, list(c_.dilations));
    made.set_numbers(dnn::kConvolutionStrides, list(c_.strides));
    made.set_numbers(dnn::kConvolutionPrePaddings, list(c_.before));
    made.set_numbers(dnn::kConvolutionPostPaddings, list(c_.after));
    made.finalize();
    return made;
  }

  // `from`: the part that is the convolution's result.
  void add_work(std::size_t from) {
    const std::vector<ConvolutionWork::Step>& steps = p_.work.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto k = static_cast<std::int64_t>(i);
      const bool is_relu = steps[i].kind == Work::relu, is_bias = steps[i].kind == Work::bias;
      const bool is_last = i + 1 == steps.size();
      const std::size_t to =
          add(tensor(is_last ? kY : kFirstInside + 1 + k, is_last ? p_.work.output : DType::f32, c_.batch,
                     c_.filters, c_.result, !is_last));
      Object kind(dnn::kPointwise);
      kind.set_word(dnn::kPointwiseMode, dnn::kPointwiseModeType, is_relu ? dnn::kRelu : dnn::kAdd);
      kind.set_word(dnn::kPointwiseComputeType, dnn::kDataTypeType, dnn::kFloat);
      kind.finalize();
      Object operation(dnn::kPointwiseOperation);
      operation.set_object(dnn::kPointwiseDescriptor, parts_[add(std::move(kind))]);
      operation.set_object(dnn::kPointwiseX, parts_[from]);
      if (!is_relu) {
        const std::size_t other =
            add(is_bias ? tensor(kFirstRead + k, steps[i].dtype, 1, c_.filters, {1, 1}, false)
                        : tensor(kFirstRead + k, steps[i].dtype, c_.batch, c_.filters, c_.result, false));
        operation.set_object(dnn::kPointwiseB, parts_[other]);
      }
      operation.set_object(dnn::kPointwiseY, parts_[to]);
      operation.finalize();
      operations_.push_back(add(std::move(operation)));
      from = to;
    }
  }

  // Notes of engines that are not taken: f32 means f32, unless tf32 was asked for.
  std::vector<int> wishes() const {
    std::vector<int> refused{dnn::kNoteFft, dnn::kNoteWinograd, dnn::kNoteReducedPrecision};
    if (c_.operands == DType::f32 && p_.is_true_f32)
      refused.insert(refused.end(), {dnn::kNoteTensorCore, dnn::kNoteDownConverts});
    if (p_.is_deterministic) refused.push_back(dnn::kNoteNondeterministic);
    return refused;
  }

  const DnnConvolution& p_;
  const Convolution& c_;
  std::vector<Object> parts_;
  std::vector<std::size_t> operations_;
};

}  // namespace

std::string DnnConvolution::text() const {
  return fmt::format("{} [{}] aligned {}{}{}", convolution.text(), work.text(),
                     fmt::join(array_alignments(*this), " "),
                     convolution.operands == DType::f32 && !is_true_f32 ? " tf32" : "",
                     is_deterministic ? " deterministic" : "");
}

std::string read_dnn_convolution(const lower::Region& region, DnnConvolution& out) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int32_t operand = node.operands[i].node;
    if (graph.node(operand).op != ir::Op::input) return "an operand is computed on the way";
    (i == 0 ? out.first : out.second) = static_cast<std::size_t>(
        std::find(graph.inputs().begin(), graph.inputs().end(), operand) - graph.inputs().begin());
  }
  if (std::string reason = read_convolution(graph, node, out.convolution); !reason.empty()) return reason;
  if (out.convolution.groups != 1 && out.convolution.kind != Convolution::Kind::forward)
    return "groups in a gradient";
  if (dnn::type_number(out.convolution.operands) < 0 || dnn::type_number(out.convolution.output) < 0)
    return fmt::format("no convolutions of {}", systole::name(out.convolution.operands));
  if (!is_channels_last(node, out.convolution)) return "channels are not last";
  if (std::string reason = read_work(region, out.work); !reason.empty()) return reason;
  if (!out.work.steps.empty()) {
    if (out.convolution.kind != Kind::forward) return "no work on the result of a gradient";
    if (out.convolution.operands == DType::f64) return "no work on a result of f64";
  }
  return {};
}

dnn::Engines engines_of(dnn::Handle handle, const DnnConvolution& problem) {
  return Builder(problem).engines(handle);
}

std::vector<std::int64_t> array_bytes(const DnnConvolution& problem) {
  const Convolution& c = problem.convolution;
  const std::int64_t counts[] = {c.batch * c.channels * c.image[0] * c.image[1],
                                 c.filters * (c.channels / c.groups) * c.window[0] * c.window[1],
                                 c.batch * c.filters * c.result[0] * c.result[1]};
  const auto bytes = [](std::int64_t count, DType dtype) {
    return count * static_cast<std::int64_t>(size_of(dtype));
  };
  // x, w and y in the order of operands and result.
  const std::size_t order[3][3] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};
  const auto& own = order[static_cast<int>(c.kind)];
  std::vector<std::int64_t> all{bytes(counts[own[0]], c.operands), bytes(counts[own[1]], c.operands),
                                bytes(counts[own[2]], problem.work.output)};
  for (const ConvolutionWork::Step& step : problem.work.steps)
    if (step.kind != Work::relu)
      all.push_back(bytes(step.kind == Work::bias ? c.filters : counts[2], step.dtype));
  return all;
}

std::vector<std::int64_t> array_alignments(const DnnConvolution& problem) {
  std::vector<std::int64_t> all = array_bytes(problem);
  std::transform(all.begin(), all.end(), all.begin(), dnn::array_alignment);
  return all;
}

void execute(dnn::Shared& shared, Stream stream, const DnnConvolution& problem, const dnn::Plan& plan,
             std::span<const Address> arrays, Address workspace) {
  const Kind kind = problem.convolution.kind;
  std::vector<std::int64_t> names{kind == Kind::input_grad ? kY : kX, kind == Kind::weight_grad ? kY : kW,
                                  kind == Kind::forward      ? kY
                                  : kind == Kind::input_grad ? kX
                                                             : kW};
  for (std::size_t i = 0; i < problem.work.steps.size(); ++i)
    if (problem.work.steps[i].kind != Work::relu) names.push_back(kFirstRead + static_cast<std::int64_t>(i));
  std::vector<void*> pointers;
  for (const Address array : arrays) pointers.push_back(reinterpret_cast<void*>(array));
  dnn::execute(shared, stream, plan, names, pointers, reinterpret_cast<void*>(workspace));
}

}  // namespace systole::cuda
