#include "backend/cpu/onednn_plan.h"

#include <algorithm>

#include "backend/cpu/cost.h"
#include "backend/cpu/memory.h"
#include "base/parallel.h"

namespace systole::cpu {

using dnnl::api;
using dnnl::Description;
using dnnl::DescriptionObject;
using dnnl::OwnedDescription;

namespace {

constexpr std::int64_t kPart = kAlignment;  // of the workspace: a multiple of this

class Run final : public LibraryRun {
 public:
  Run(const std::vector<Stage>& stages, const std::vector<float>& numbers, int threads)
      : numbers_(numbers), threads_(threads) {
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
      case Place::Kind::number:  // which nobody writes
        return reinterpret_cast<std::byte*>(const_cast<float*>(numbers_.data() + place.index));
    }
    return nullptr;
  }

  const std::vector<float>& numbers_;
  std::shared_ptr<std::byte> packed_;
  bool is_used_ = false;
  const int threads_;
  dnnl::OwnedStream stream_;
  std::vector<Bound> bound_;
};

}  // namespace

int library_threads(std::int64_t multiplications) {
  // With fewer for each, handing work and results over takes longer than doing it.
  constexpr std::int64_t kWorthAThread = 1'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(multiplications / kWorthAThread, 1, thread_count()));
}

Plan::Plan(std::int64_t multiplications)
    : threads_(Forced::threads() > 0 ? Forced::threads() : library_threads(multiplications)) {
  lend_pool(threads_);
}

std::unique_ptr<LibraryRun> Plan::new_run() const {
  return std::make_unique<Run>(stages_, numbers_, threads_);
}

Place Plan::scratch(std::int64_t bytes) {
  const std::int64_t at = workspace_;
  workspace_ += (bytes + kPart - 1) / kPart * kPart;
  return {Place::Kind::workspace, 0, at};
}

Place Plan::number(float value) {
  numbers_.push_back(value);
  return {Place::Kind::number, numbers_.size() - 1, 0};
}

void Plan::add(const dnnl::PrimitiveDescriptionObject* what, std::vector<Use> uses) {
  const DescriptionObject* const scratchpad = api().primitive_desc_query_md(what, dnnl::kScratchpadOf, 0);
  if (scratchpad != nullptr && api().memory_desc_get_size(scratchpad) > 0) {
    const auto bytes = static_cast<std::int64_t>(api().memory_desc_get_size(scratchpad));
    uses.push_back({dnnl::kScratchpad, copy_of(scratchpad), scratch(bytes)});
  }
  dnnl::Primitive made = nullptr;
  dnnl::check(api().primitive_create(&made, what), "dnnl_primitive_create");
  stages_.push_back({dnnl::OwnedPrimitive(made), std::move(uses), -1, 0});
}

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

Place Plan::packed(const DescriptionObject* from, Place from_place, const DescriptionObject* to) {
  Place place = scratch(static_cast<std::int64_t>(api().memory_desc_get_size(to)));
  place.kind = Place::Kind::packed;
  copy(from, from_place, to, place);
  stages_.back().packed = static_cast<std::int64_t>(from_place.index);
  stages_.back().packed_bytes = static_cast<std::int64_t>(api().memory_desc_get_size(to));
  return place;
}

OwnedDescription copy_of(const DescriptionObject* array) {
  Description made = nullptr;
  dnnl::check(api().memory_desc_clone(&made, array), "dnnl_memory_desc_clone");
  return OwnedDescription(made);
}

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

void add_array(dnnl::Attributes to, const DescriptionObject* array) {
  const dnnl::OwnedPostOps ops = post_ops();
  dnnl::check(api().post_ops_append_binary(ops.get(), dnnl::kAdd, array), "dnnl_post_ops_append_binary");
  dnnl::check(api().primitive_attr_set_post_ops(to, ops.get()), "dnnl_primitive_attr_set_post_ops");
}

std::int64_t input_of(const lower::Region& region, std::size_t operand) {
  const ir::Graph& graph = region.graph;
  const std::int32_t node = graph.node(region.anchor).operands[operand].node;
  if (graph.node(node).op != ir::Op::input) return -1;
  return std::find(graph.inputs().begin(), graph.inputs().end(), node) - graph.inputs().begin();
}

}  // namespace systole::cpu
