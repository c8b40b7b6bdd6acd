#pragma once

// What the GPU's libraries do of a Program.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/device.h"
#include "codegen/few_channels.h"
#include "compile/program.h"
#include "compile/target.h"
#include "systole/runtime.h"

namespace systole::cuda {

class LibraryCall;

class Target final : public lower::Target {
 public:
  Target(const Device& device, runtime::Math math, bool is_deterministic = false)
      : device_(device), math_(math), is_deterministic_(is_deterministic) {}
  std::string_view name() const override { return "cuda"; }
  bool is_deterministic() const { return is_deterministic_; }
  // Whether generated kernels multiply f32 on tensor cores.
  bool has_tf32() const { return math_ == runtime::Math::tf32 && has_tensor_cores(); }
  bool has_tensor_cores() const { return device_.capability() >= 80; }
  lower::KernelLimits limits() const override {
    // A GPU does ten operations in the time in which it moves a byte.
    return {.nodes = 400,
            .buffers = 500,
            .inlined_cost_of_many = 4,
            .repeated_cost = 40,
            .cuts_rows = true,
            .judges = true,
            .room = std::int64_t{64} << 20};
  }
  std::int64_t kernel_scratch(const lower::Region& region) const override;
  std::vector<lower::Claim> offers(const lower::Region& region) const override;
  ir::Graph restated(const ir::Graph& graph) const override;
  ir::Graph adapted(const ir::Graph& graph) const override;
  bool reads_moved(const ir::Node& reader, std::size_t operand, const lower::Strided& view) const override;

  std::shared_ptr<const LibraryCall> library_call(const lower::Step& step) const;

 private:
  bool takes_few_channels() const;  // in generated kernels
  std::optional<codegen::FewChannels> few_channels(const lower::Region& region) const;

  const Device& device_;
  const runtime::Math math_;
  const bool is_deterministic_;
};

}  // namespace systole::cuda
