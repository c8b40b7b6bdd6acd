#include "backend/cpu/onednn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/onednn_api.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/convolution_work.h"
#include "backend/patterns/on_result.h"
#include "backend/patterns/product.h"
#include "base/parallel.h"
#include "systole/base/error.h"

namespace systole::cpu {

using namespace patterns;

namespace {

using dnnl::api;
using dnnl::Description;
using dnnl::DescriptionObject;
using dnnl::OwnedDescription;

constexpr std::int64_t kAlignment = 64;  // of parts of the workspace
// Multiplications below which calling the library takes longer than the work.
constexpr std::int64_t kWorthACall = 20'000;
// Multiplications per thread: with fewer, handing work and results over takes longer than doing it.
constexpr std::int64_t kWorthAThread = 1'000'000;

int threads_for(std::int64_t multiplications) {
  return static_cast<int>(std::clamp<std::int64_t>(multiplications / kWorthAThread, 1, thread_count()));
}

// Where an array lies: in an input, an output, the workspace, or where a kernel was packed.
struct Place {
  enum class Kind { input, output, workspace, packed };
  Kind kind = Kind::input;
  std::size_t index = 0;
  std::int64_t offset = 0;  // in bytes
};
Place input(std::size_t i, std::int64_t offset = 0) { return {Place::Kind::input, i, offset}; }
Place output(std::size_t i) { return {Place::Kind::output, i, 0}; }
Place moved(Place place, std::int64_t bytes) {
  place.offset += bytes;
  return place;
}

struct Use {
  int name = 0;  // of the argument
  OwnedDescription array;
  Place place;
};

struct Stage {
  dnnl::OwnedPrimitive primitive;
  std::vector<Use> uses;
  std::int64_t packed = -1;  // the input that it brings into the library's order, and nothing else
  std::int64_t packed_bytes = 0;
};

OwnedDescription copy_of(const DescriptionObject* array) {
  Description made = nullptr;
  dnnl::check(api().memory_desc_clone(&made, array), "dnnl_memory_desc_clone");
  return OwnedDescription(made);
}

class Run final : public LibraryRun {
 public:
  Run(const std::vector<Stage>& stages, int threads) : threads_(threads) {
    dnnl::Stream stream = nullptr;
    dnnl::check(api().stream_create(&stream, dnnl::engine(), dnnl::kInOrder), "dnnl_stream_create");
    stream_.reset(stream);
    for (const Stage& stage : stages) {
      Bound& bound = bound_.emplace_back();
      bound.stage = &stage;
      for (const Use& use : stage.uses) {
        dnnl::Memory memory = nullptr;
        dnnl::check(api().memory_create(&memory, use.array.get(), dnnl::engine(), nullptr),
                    "dnnl_memory_create");
        bound.memory.emplace_back(memory);
        bound.arguments.push_back({use.name, memory});
      }
    }
  }

  void run(const Memory& memory) override {
    lend_pool(threads_);
    for (Bound& bound : bound_) {
      if (bound.stage->packed >= 0 && is_packed(bound, memory)) continue;
      for (std::size_t i = 0; i < bound.arguments.size(); ++i)
        dnnl::check(
            api().memory_set_data_handle(bound.arguments[i].memory, at(bound.stage->uses[i].place, memory)),
            "dnnl_memory_set_data_handle");
      dnnl::check(api().primitive_execute(bound.stage->primitive.get(), stream_.get(),
                                          static_cast<int>(bound.arguments.size()), bound.arguments.data()),
                  "dnnl_primitive_execute");
    }
  }

 private:
  struct Bound {
    const Stage* stage = nullptr;
    std::vector<dnnl::OwnedMemory> memory;
    std::vector<dnnl::Argument> arguments;
  };

  // A kernel that comes a second time as it was is packed into memory of its own, and stays there as long as
  // it comes so; until then it is packed into the workspace.
  bool is_packed(const Bound& bound, const Memory& memory) {
    const bool was = packed_ && is_used_;
    is_used_ = memory.is_same[static_cast<std::size_t>(bound.stage->packed)] != 0;
    if (is_used_ && !packed_) packed_ = allocate(bound.stage->packed_bytes);
    return was && is_used_;
  }

  std::byte* at(const Place& place, const Memory& memory) const {
    switch (place.kind) {
      case Place::Kind::input: return memory.inputs[place.index] + place.offset;
      case Place::Kind::output: return memory.outputs[place.index] + place.offset;
      case Place::Kind::packed:
        if (is_used_) return packed_.get();
        [[fallthrough]];
      case Place::Kind::workspace: return memory.workspace + place.offset;
    }
    return nullptr;
  }

  std::shared_ptr<std::byte> packed_;
  bool is_used_ = false;
  const int threads_;
  dnnl::OwnedStream stream_;
  std::vector<Bound> bound_;
};

// Primitives one after another, made for a number of threads.
class Plan final : public LibraryCall {
 public:
  explicit Plan(std::int64_t multiplications) : threads_(threads_for(multiplications)) {
    lend_pool(threads_);
  }
  std::unique_ptr<LibraryRun> new_run() const override { return std::make_unique<Run>(stages_, threads_); }
  bool keeps_inputs() const override { return stages_.front().packed >= 0; }
  std::int64_t workspace() const { return workspace_; }

  Place scratch(std::int64_t bytes) {
    const std::int64_t at = workspace_;
    workspace_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return {Place::Kind::workspace, 0, at};
  }

  void add(const dnnl::PrimitiveDescriptionObject* what, std::vector<Use> uses) {
    const DescriptionObject* const scratchpad = api().primitive_desc_query_md(what, dnnl::kScratchpadOf, 0);
    if (scratchpad != nullptr && api().memory_desc_get_size(scratchpad) > 0) {
      const auto bytes = static_cast<std::int64_t>(api().memory_desc_get_size(scratchpad));
      uses.push_back({dnnl::kScratchpad, copy_of(scratchpad), scratch(bytes)});
    }
    dnnl::Primitive made = nullptr;
    dnnl::check(api().primitive_create(&made, what), "dnnl_primitive_create");
    stages_.push_back({dnnl::OwnedPrimitive(made), std::move(uses), -1, 0});
  }

  void copy(const DescriptionObject* from, Place from_place, const DescriptionObject* to, Place to_place);
  void sum(const DescriptionObject* array, const std::vector<Place>& from, Place to);
  // The only one, and first: an input in another order.
  Place packed(const DescriptionObject* from, Place from_place, const DescriptionObject* to) {
    Place place = scratch(static_cast<std::int64_t>(api().memory_desc_get_size(to)));
    place.kind = Place::Kind::packed;
    copy(from, from_place, to, place);
    stages_.back().packed = static_cast<std::int64_t>(from_place.index);
    stages_.back().packed_bytes = static_cast<std::int64_t>(api().memory_desc_get_size(to));
    return place;
  }

 private:
  const int threads_;
  std::vector<Stage> stages_;
  std::int64_t workspace_ = 0;
};

dnnl::OwnedAttributes attributes() {
  dnnl::Attributes made = nullptr;
  dnnl::check(api().primitive_attr_create(&made), "dnnl_primitive_attr_create");
  dnnl::OwnedAttributes owned(made);
  dnnl::check(api().primitive_attr_set_scratchpad_mode(made, dnnl::kUserScratchpad),
              "dnnl_primitive_attr_set_scratchpad_mode");
  return owned;
}

dnnl::OwnedPostOps post_ops() {
  dnnl::PostOps made = nullptr;
  dnnl::check(api().post_ops_create(&made), "dnnl_post_ops_create");
  return dnnl::OwnedPostOps(made);
}

// Adds an array of this description to the result.
void add_array(dnnl::Attributes to, const DescriptionObject* array) {
  const dnnl::OwnedPostOps ops = post_ops();
  dnnl::check(api().post_ops_append_binary(ops.get(), dnnl::kAdd, array), "dnnl_post_ops_append_binary");
  dnnl::check(api().primitive_attr_set_post_ops(to, ops.get()), "dnnl_primitive_attr_set_post_ops");
}
constexpr int kAddedArray = dnnl::kPostOp | dnnl::kSecondSource;  // of the only such

void Plan::copy(const DescriptionObject* from, Place from_place, const DescriptionObject* to,
                Place to_place) {
  dnnl::PrimitiveDescription made = nullptr;
  const dnnl::OwnedAttributes how = attributes();
  dnnl::check(api().reorder_primitive_desc_create(&made, from, dnnl::engine(), to, dnnl::engine(), how.get()),
              "dnnl_reorder_primitive_desc_create");
  const dnnl::OwnedPrimitiveDescription owned(made);
  std::vector<Use> uses;
  uses.push_back({dnnl::kSource, copy_of(from), from_place});
  uses.push_back({dnnl::kResult, copy_of(to), to_place});
  add(made, std::move(uses));
}

void Plan::sum(const DescriptionObject* array, const std::vector<Place>& from, Place to) {
  dnnl::PrimitiveDescription made = nullptr;
  const dnnl::OwnedAttributes how = attributes();
  const std::vector<float> scales(from.size(), 1);
  const std::vector<const DescriptionObject*> arrays(from.size(), array);
  dnnl::check(api().sum_primitive_desc_create(&made, dnnl::engine(), array, static_cast<int>(from.size()),
                                              scales.data(), arrays.data(), how.get()),
              "dnnl_sum_primitive_desc_create");
  const dnnl::OwnedPrimitiveDescription owned(made);
  std::vector<Use> uses;
  for (std::size_t i = 0; i < from.size(); ++i)
    uses.push_back({dnnl::kSources + static_cast<int>(i), copy_of(array), from[i]});
  uses.push_back({dnnl::kResult, copy_of(array), to});
  add(made, std::move(uses));
}

struct Made {
  std::shared_ptr<Plan> plan;
  std::string name, reason;  // one of them is empty
};
Made refused(std::string reason) { return {nullptr, {}, std::move(reason)}; }

Made make_product(const lower::Region& region) {
  Product p;
  OnResult work;
  const lower::Region bare = flat(region);
  if (std::string reason = read_product(bare, p); !reason.empty()) return refused(reason);
  if (std::string reason = read_on_result(bare, p, work); !reason.empty()) return refused(reason);
  if (p.operands != DType::f32 || p.result != DType::f32)
    return refused(fmt::format("products of {}", systole::name(p.operands)));
  if (work.scale != 1 || work.function != Pointwise::identity || work.before >= 0 || work.row_sum >= 0 ||
      work.operand_sum >= 0)
    return refused("other work on the result than additions");
  constexpr std::int64_t kFewRows = 4, kLongestDepth = 4096;
  if (p.rows <= kFewRows && p.b.contract_stride == 1 && p.depth <= kLongestDepth)
    return refused("few rows: a generated kernel reads the other factor once");
  const std::int64_t count = p.outer * p.batch * p.rows * p.columns * p.depth;
  if (count < kWorthACall) return refused(fmt::format("small: {} multiplications", count));

  auto plan = std::make_shared<Plan>(count);
  // Batches, then the matrix; a batch at stride 0 is one for all.
  using List = std::vector<std::int64_t>;
  const auto array = [&](std::int64_t outer, std::int64_t batch, List matrix, List strides) {
    List dims, steps;
    if (p.outer > 1)
      dims.push_back(outer == 0 ? 1 : p.outer), steps.push_back(std::max(outer, List::value_type{1}));
    if (p.outer > 1 || p.batch > 1)
      dims.push_back(batch == 0 ? 1 : p.batch), steps.push_back(std::max(batch, List::value_type{1}));
    dims.insert(dims.end(), matrix.begin(), matrix.end());
    steps.insert(steps.end(), strides.begin(), strides.end());
    return dnnl::described(dims, dnnl::kF32, steps);
  };
  const std::int64_t size = p.rows * p.columns;
  OwnedDescription a = array(p.a.outer_stride, p.a.batch_stride, {p.rows, p.depth},
                             {p.a.free_stride, p.a.contract_stride}),
                   b = array(p.b.outer_stride, p.b.batch_stride, {p.depth, p.columns},
                             {p.b.contract_stride, p.b.free_stride}),
                   c = array(size * p.batch, size, {p.rows, p.columns}, {p.columns, 1});
  OwnedDescription bias = work.bias >= 0 ? array(0, 0, {1, p.columns}, {p.columns, 1}) : nullptr;
  const dnnl::OwnedAttributes how = attributes();
  if (work.added >= 0) add_array(how.get(), c.get());
  // A right factor that lies across is packed either way; what packs it here may be kept.
  const bool packs = p.b.contract_stride == 1 && p.b.free_stride != 1 && p.outer * p.batch == 1;
  const OwnedDescription any = packs ? dnnl::described({p.depth, p.columns}, dnnl::kF32) : nullptr;
  dnnl::PrimitiveDescription made = nullptr;
  dnnl::check(api().matmul_primitive_desc_create(&made, dnnl::engine(), a.get(), packs ? any.get() : b.get(),
                                                 bias.get(), c.get(), how.get()),
              "dnnl_matmul_primitive_desc_create");
  const dnnl::OwnedPrimitiveDescription owned(made);
  Place right = input(p.b.input, p.b.offset * 4);
  if (packs) {
    const DescriptionObject* const wanted = api().primitive_desc_query_md(made, dnnl::kWeightsOf, 0);
    right = plan->packed(b.get(), right, wanted);
    b = copy_of(wanted);
  }

  std::vector<Use> uses;
  uses.push_back({dnnl::kSource, std::move(a), input(p.a.input, p.a.offset * 4)});
  uses.push_back({dnnl::kWeights, std::move(b), right});
  if (bias) uses.push_back({dnnl::kBias, std::move(bias), input(static_cast<std::size_t>(work.bias))});
  if (work.added >= 0)
    uses.push_back({kAddedArray, copy_of(c.get()), input(static_cast<std::size_t>(work.added))});
  uses.push_back({dnnl::kResult, std::move(c), output(static_cast<std::size_t>(work.result))});
  plan->add(made, std::move(uses));
  return {std::move(plan), "onednn.matmul" + work.text(), {}};
}

// The operand of a region's anchor among its inputs; -1: it is computed.
std::int64_t input_of(const lower::Region& region, std::size_t operand) {
  const ir::Graph& graph = region.graph;
  const std::int32_t node = graph.node(region.anchor).operands[operand].node;
  if (graph.node(node).op != ir::Op::input) return -1;
  return std::find(graph.inputs().begin(), graph.inputs().end(), node) - graph.inputs().begin();
}

struct Geometry {
  OwnedDescription x, any_w, w, y;
  std::int64_t strides[2], dilations[2], before[2], after[2];

  Geometry(const Convolution& c, const std::array<std::int64_t, 4>& kernel) {
    const std::int64_t h = c.image[0], v = c.image[1], g = c.groups, in = c.channels / g, out = c.filters / g,
                       kh = c.window[0], kw = c.window[1];
    x = dnnl::described({c.batch, c.channels, h, v}, dnnl::kF32,
                        {h * v * c.channels, 1, v * c.channels, c.channels});
    y = dnnl::described({c.batch, c.filters, c.result[0], c.result[1]}, dnnl::kF32,
                        {c.result[0] * c.result[1] * c.filters, 1, c.result[1] * c.filters, c.filters});
    std::vector<std::int64_t> dims{out, in, kh, kw}, steps(kernel.begin(), kernel.end());
    if (g > 1) {
      dims.insert(dims.begin(), g);
      steps.insert(steps.begin(), out * kernel[0]);
    }
    w = dnnl::described(dims, dnnl::kF32, steps);
    any_w = dnnl::described(dims, dnnl::kF32);
    for (std::size_t i = 0; i < 2; ++i) {
      strides[i] = c.strides[i];
      dilations[i] = c.dilations[i] - 1;
      before[i] = c.before[i];
      after[i] = c.after[i];
    }
  }
};

dnnl::OwnedPrimitiveDescription forward(const Geometry& g, const DescriptionObject* bias,
                                        const dnnl::AttributesObject* how) {
  dnnl::PrimitiveDescription made = nullptr;
  dnnl::check(api().convolution_forward_primitive_desc_create(
                  &made, dnnl::engine(), dnnl::kTraining, dnnl::kDirect, g.x.get(), g.any_w.get(), bias,
                  g.y.get(), g.strides, g.dilations, g.before, g.after, how),
              "dnnl_convolution_forward_primitive_desc_create");
  return dnnl::OwnedPrimitiveDescription(made);
}

// The library sums the gradient of a kernel with few channels in one run over all images: of very many points
// that is worse than is promised. So it is made of parts, each of some images.
std::int64_t parts_of(const Convolution& c) {
  constexpr std::int64_t kFewChannels = 16, kLongestRun = 16384;
  const std::int64_t points = c.result[0] * c.result[1];
  if (c.channels / c.groups >= kFewChannels) return 1;
  std::int64_t parts = 1;
  while (parts < c.batch && (c.batch % parts != 0 || c.batch / parts * points > kLongestRun)) ++parts;
  return parts;
}

Made make_convolution(const lower::Region& region) {
  const ir::Node& node = region.graph.node(region.anchor);
  Convolution c;
  ConvolutionWork work;
  if (std::string reason = read_convolution(region.graph, node, c); !reason.empty()) return refused(reason);
  if (c.operands != DType::f32 || c.output != DType::f32)
    return refused(fmt::format("convolutions of {}", systole::name(c.operands)));
  const std::int64_t first = input_of(region, 0), second = input_of(region, 1);
  if (first < 0 || second < 0) return refused("an operand is computed on the way");
  if (!is_channels_last(node, c, ChannelsLast::images)) return refused("channels are not last");
  if (std::string reason = read_work(region, work); !reason.empty()) return refused(reason);
  std::int64_t bias = -1, added = -1;
  for (const ConvolutionWork::Step& step : work.steps) {
    const auto at = static_cast<std::int64_t>(step.input);
    if (step.kind == ConvolutionWork::Kind::bias && bias < 0 && step.dtype == DType::f32)
      bias = at;
    else if (step.kind == ConvolutionWork::Kind::add && added < 0 && step.dtype == DType::f32)
      added = at;
    else
      return refused("other work on the result than a bias and an array");
  }
  if (!work.steps.empty() && (c.kind != Convolution::Kind::forward || work.output != DType::f32))
    return refused("work on the result of a gradient");

  auto plan = std::make_shared<Plan>(c.batch * c.filters * c.result[0] * c.result[1] * c.window[0] *
                                     c.window[1] * (c.channels / c.groups));
  const std::int64_t parts = c.kind == Convolution::Kind::weight_grad ? parts_of(c) : 1;
  c.batch /= parts;
  Geometry g(c, kernel_strides(region.graph, node, c));
  std::vector<Use> uses;
  const auto operands = [&](std::size_t i) {
    return input(static_cast<std::size_t>(i == 0 ? first : second));
  };
  // A kernel in the library's order, where that is another than ours.
  const auto kernel = [&](const DescriptionObject* wanted, Place from) {
    return api().memory_desc_equal(wanted, g.w.get()) != 0 ? from : plan->packed(g.w.get(), from, wanted);
  };
  const dnnl::OwnedAttributes how = attributes();
  switch (c.kind) {
    case Convolution::Kind::forward: {
      OwnedDescription wide = bias >= 0 ? dnnl::described({c.filters}, dnnl::kF32, {1}) : nullptr;
      if (added >= 0) add_array(how.get(), g.y.get());
      const dnnl::OwnedPrimitiveDescription what = forward(g, wide.get(), how.get());
      const DescriptionObject* const w = api().primitive_desc_query_md(what.get(), dnnl::kWeightsOf, 0);
      uses.push_back({dnnl::kWeights, copy_of(w), kernel(w, operands(1))});
      uses.push_back({dnnl::kSource, std::move(g.x), operands(0)});
      if (wide) uses.push_back({dnnl::kBias, std::move(wide), input(static_cast<std::size_t>(bias))});
      if (added >= 0)
        uses.push_back({kAddedArray, copy_of(g.y.get()), input(static_cast<std::size_t>(added))});
      uses.push_back({dnnl::kResult, std::move(g.y), output(0)});
      plan->add(what.get(), std::move(uses));
      break;
    }
    case Convolution::Kind::input_grad: {
      const dnnl::OwnedPrimitiveDescription hint = forward(g, nullptr, how.get());
      dnnl::PrimitiveDescription made = nullptr;
      dnnl::check(api().convolution_backward_data_primitive_desc_create(
                      &made, dnnl::engine(), dnnl::kDirect, g.x.get(), g.any_w.get(), g.y.get(), g.strides,
                      g.dilations, g.before, g.after, hint.get(), how.get()),
                  "dnnl_convolution_backward_data_primitive_desc_create");
      const dnnl::OwnedPrimitiveDescription what(made);
      const DescriptionObject* const w = api().primitive_desc_query_md(made, dnnl::kWeightsOf, 0);
      uses.push_back({dnnl::kWeights, copy_of(w), kernel(w, operands(1))});
      uses.push_back({dnnl::kResultGradient, std::move(g.y), operands(0)});
      uses.push_back({dnnl::kInputGradient, std::move(g.x), output(0)});
      plan->add(made, std::move(uses));
      break;
    }
    case Convolution::Kind::weight_grad: {
      const dnnl::OwnedPrimitiveDescription hint = forward(g, nullptr, how.get());
      dnnl::PrimitiveDescription made = nullptr;
      dnnl::check(api().convolution_backward_weights_primitive_desc_create(
                      &made, dnnl::engine(), dnnl::kDirect, g.x.get(), g.any_w.get(), nullptr, g.y.get(),
                      g.strides, g.dilations, g.before, g.after, hint.get(), how.get()),
                  "dnnl_convolution_backward_weights_primitive_desc_create");
      const dnnl::OwnedPrimitiveDescription what(made);
      const DescriptionObject* const w = api().primitive_desc_query_md(made, dnnl::kWeightGradientOf, 0);
      const bool is_ours = api().memory_desc_equal(w, g.w.get()) != 0;
      const auto bytes = static_cast<std::int64_t>(api().memory_desc_get_size(w));
      const Place whole = is_ours ? output(0) : plan->scratch(bytes);
      const std::int64_t x_bytes = 4 * c.batch * c.channels * c.image[0] * c.image[1],
                         y_bytes = 4 * c.batch * c.filters * c.result[0] * c.result[1];
      std::vector<Place> sums;
      for (std::int64_t part = 0; part < parts; ++part) {
        sums.push_back(parts == 1 ? whole : plan->scratch(bytes));
        uses.clear();
        uses.push_back({dnnl::kWeightGradient, copy_of(w), sums.back()});
        uses.push_back({dnnl::kSource, copy_of(g.x.get()), moved(operands(0), part * x_bytes)});
        uses.push_back({dnnl::kResultGradient, copy_of(g.y.get()), moved(operands(1), part * y_bytes)});
        plan->add(made, std::move(uses));
      }
      if (parts > 1) plan->sum(w, sums, whole);
      if (!is_ours) plan->copy(w, whole, g.w.get(), output(0));
      break;
    }
  }
  std::string name = "onednn.convolution";
  if (c.kind == Convolution::Kind::input_grad) name += "_input_grad";
  if (c.kind == Convolution::Kind::weight_grad) name += "_weight_grad";
  for (const ConvolutionWork::Step& step : work.steps) name += "+" + std::string(patterns::name(step.kind));
  return {std::move(plan), name, {}};
}

Made make(const lower::Region& region) {
  if (std::string reason = onednn_absence(); !reason.empty()) return refused(reason);
  try {
    return region.graph.node(region.anchor).op == ir::Op::convolution ? make_convolution(region)
                                                                      : make_product(region);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return refused(error.message());
  }
}

}  // namespace

std::string onednn_absence() { return dnnl::absence(); }

std::vector<lower::Claim> onednn_offers(const lower::Region& region) {
  if (dnnl::is_off()) return {};
  const Made made = make(region);
  if (!made.plan) return {lower::Claim::declined("oneDNN: " + made.reason)};
  return {{made.name, {}, 10, made.plan->workspace()}};
}

std::shared_ptr<const LibraryCall> onednn_call(const lower::Region& region) {
  Made made = make(region);
  if (!made.plan) throw Error(ErrorKind::kInternal, "oneDNN", made.reason);
  return made.plan;
}

}  // namespace systole::cpu
