#include "backend/cpu/onednn_int8.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/onednn_contraction.h"
#include "backend/cpu/onednn_convolution.h"
#include "backend/cpu/onednn_int8_trial.h"
#include "backend/cpu/onednn_product.h"
#include "backend/cpu/onednn_scaling.h"
#include "base/parallel.h"

namespace systole::cpu {

using namespace patterns;
using dnnl::api;

namespace {

// A layer whose factors and summands are looked at first: what is of no usual size is summed by the library
// and scaled by us.
class Layer final : public LibraryCall {
 public:
  Layer(const Contraction& c, Scaling scaling, std::size_t inputs)
      : inputs_(inputs),
        columns_(c.columns),
        count_(c.count),
        scaling_(std::move(scaling)),
        whole_(plan_of(c, scaling_)),
        bare_(plan_of(c, {})) {}

  bool keeps_inputs() const override { return whole_->keeps_inputs(); }
  std::int64_t workspace() const { return std::max(whole_->workspace(), sums_at() + sums_bytes()); }
  std::unique_ptr<LibraryRun> new_run() const override { return std::make_unique<LayerRun>(*this); }

 private:
  class LayerRun final : public LibraryRun {
   public:
    explicit LayerRun(const Layer& layer)
        : layer_(layer),
          whole_(layer.whole_->new_run()),
          bare_(layer.bare_->new_run()),
          none_(layer.inputs_, 0) {}

    void run(const Memory& memory) override {
      if (is_usual(layer_.scaling_, layer_.columns_, memory.inputs)) {
        Memory own = memory;
        if (was_bare_) own.is_same = none_;  // what the other did not see may have changed
        was_bare_ = false;
        return whole_->run(own);
      }
      was_bare_ = true;
      std::byte* const sums = memory.workspace + layer_.sums_at();
      bare_->run({memory.inputs, std::span(&sums, 1), memory.workspace, none_});
      scale(layer_.scaling_, layer_.columns_,
            {reinterpret_cast<const std::int32_t*>(sums), static_cast<std::size_t>(layer_.count_)},
            memory.inputs, memory.outputs[0]);
    }

   private:
    const Layer& layer_;
    const std::unique_ptr<LibraryRun> whole_, bare_;
    const std::vector<unsigned char> none_;  // of the inputs are as before
    bool was_bare_ = true;
  };

  std::int64_t sums_at() const { return bare_->workspace(); }
  std::int64_t sums_bytes() const { return count_ * static_cast<std::int64_t>(sizeof(std::int32_t)); }

  const std::size_t inputs_;
  const std::int64_t columns_, count_;
  const Scaling scaling_;
  const std::shared_ptr<const Plan> whole_, bare_;
};

// A product in parts of its depth, each exact where the whole would not be, added by us.
class Parts final : public LibraryCall {
 public:
  Parts(Product p, DType first, std::int64_t parts) : count_(p.rows * p.columns), parts_(parts) {
    p.batch = parts;
    p.depth /= parts;
    p.a.batch_stride = p.depth * p.a.contract_stride;
    p.b.batch_stride = p.depth * p.b.contract_stride;
    plan_ = plan_of(contraction_of(p, first), {});
  }

  bool keeps_inputs() const override { return plan_->keeps_inputs(); }
  std::int64_t workspace() const { return plan_->workspace() + parts_ * count_ * 4; }
  std::unique_ptr<LibraryRun> new_run() const override { return std::make_unique<PartsRun>(*this); }

 private:
  class PartsRun final : public LibraryRun {
   public:
    explicit PartsRun(const Parts& parts) : parts_(parts), plan_(parts.plan_->new_run()) {}

    void run(const Memory& memory) override {
      std::byte* const sums = memory.workspace + parts_.plan_->workspace();
      plan_->run({memory.inputs, std::span(&sums, 1), memory.workspace, memory.is_same});
      const Sums all{reinterpret_cast<const std::uint32_t*>(sums),
                     reinterpret_cast<std::uint32_t*>(memory.outputs[0]), parts_.count_, parts_.parts_};
      parallel_for((all.count + kRun - 1) / kRun, thread_count(), add, &all);
    }

   private:
    const Parts& parts_;
    const std::unique_ptr<LibraryRun> plan_;
  };

  static constexpr std::int64_t kRun = 16384;
  struct Sums {
    const std::uint32_t* from;  // whose sums wrap
    std::uint32_t* to;
    std::int64_t count, parts;
  };
  static void add(const void* context, std::int64_t begin, std::int64_t end) {
    const auto& all = *static_cast<const Sums*>(context);
    const std::int64_t last = std::min(end * kRun, all.count);
    for (std::int64_t i = begin * kRun; i < last; ++i) all.to[i] = all.from[i];
    for (std::int64_t part = 1; part < all.parts; ++part)
      for (std::int64_t i = begin * kRun; i < last; ++i) all.to[i] += all.from[part * all.count + i];
  }

  const std::int64_t count_, parts_;
  std::shared_ptr<const Plan> plan_;
};

constexpr std::int64_t kExactInF32 = std::int64_t{1} << 24;

std::int64_t largest_product(DType first) { return (first == DType::u8 ? 255 : 128) * 128; }

// Parts of the depth whose sums f32 has, as few as can be; 0: none.
std::int64_t parts_of(const Product& p, DType first) {
  constexpr std::int64_t kMostParts = 16;
  if (p.outer * p.batch > 1) return 0;
  for (std::int64_t parts = 2; parts <= kMostParts; ++parts)
    if (p.depth % parts == 0 && p.depth / parts * largest_product(first) <= kExactInF32) return parts;
  return 0;
}

// Whether sums are beyond doubt: four products at a time, and none that f32 rounds but where it becomes f32.
bool needs_trial(std::int64_t depth, DType first, const Scaling& scaling) {
  if ((api().get_effective_cpu_isa() & dnnl::kVnni512) == 0) return true;
  return scaling.output == DType::i32 && depth * largest_product(first) > kExactInF32;
}

Made made_of(const Contraction& c, Scaling scaling, std::size_t inputs, const std::string& name) {
  const std::string text = name + scaling.text();
  if (scaling.output == DType::i32) return made_of(plan_of(c, scaling), text);
  const auto layer = std::make_shared<Layer>(c, std::move(scaling), inputs);
  return {layer, layer->workspace(), text, {}};
}

constexpr const char* kInexact = "the library's sums of bytes are not exact here";

Made make_product(const lower::Region& region, DType first) {
  Product p;
  Scaling scaling;
  if (std::string reason = read_product(region, p); !reason.empty()) return refused(reason);
  if (std::string reason = read_scaling(region, p.columns, scaling); !reason.empty()) return refused(reason);
  if (multiplications(p) < kWorthACall)
    return refused(fmt::format("small: {} multiplications", multiplications(p)));
  const std::size_t inputs = region.graph.inputs().size();
  if (!needs_trial(p.depth, first, scaling) || is_exact(p, first))
    return made_of(contraction_of(p, first), std::move(scaling), inputs, "onednn.matmul_int8");
  const std::int64_t parts = parts_of(p, first);
  if (scaling.output != DType::i32 || parts == 0) return refused(kInexact);
  const auto summed = std::make_shared<Parts>(p, first, parts);
  return {summed, summed->workspace(), fmt::format("onednn.matmul_int8+{} parts", parts), {}};
}

Made make_convolution(const lower::Region& region) {
  const ir::Node& node = region.graph.node(region.anchor);
  Convolution c;
  Scaling scaling;
  if (std::string reason = read_convolution(region.graph, node, c); !reason.empty()) return refused(reason);
  if (c.kind != Convolution::Kind::forward) return refused("a window as large as the image");
  const std::int64_t first = input_of(region, 0), second = input_of(region, 1);
  if (first < 0 || second < 0) return refused("an operand is computed on the way");
  if (!is_channels_last(node, c, ChannelsLast::images)) return refused("channels are not last");
  if (std::string reason = read_scaling(region, c.filters, scaling); !reason.empty()) return refused(reason);
  if (multiplications(c) < kWorthACall)
    return refused(fmt::format("small: {} multiplications", multiplications(c)));
  const Contraction contraction =
      contraction_of(c, kernel_strides(region.graph, node, c), static_cast<std::size_t>(first),
                     static_cast<std::size_t>(second));
  if (needs_trial(contraction.depth, c.operands, scaling) && !is_exact(c)) return refused(kInexact);
  return made_of(contraction, std::move(scaling), region.graph.inputs().size(), "onednn.convolution_int8");
}

}  // namespace

bool is_int8(const lower::Region& region) {
  const ir::Node& node = region.graph.node(region.anchor);
  const DType first = region.graph.type(node.operands[0]).dtype;
  return is_integer(first) && size_of(first) == 1;
}

Made make_onednn_int8(const lower::Region& region) {
  const ir::Node& node = region.graph.node(region.anchor);
  const DType first = region.graph.type(node.operands[0]).dtype,
              second = region.graph.type(node.operands[1]).dtype, result = node.types[0].dtype;
  if (second != DType::i8 || result != DType::i32)
    return refused(fmt::format("{} by {} in {}; it multiplies by i8 in i32", systole::name(first),
                               systole::name(second), systole::name(result)));
  if ((api().get_effective_cpu_isa() & (dnnl::kVnni512 | dnnl::kVnni)) == 0)
    return refused("the processor adds products of bytes in 16 bits, which are too few");
  return node.op == ir::Op::convolution ? make_convolution(region) : make_product(region, first);
}

}  // namespace systole::cpu
