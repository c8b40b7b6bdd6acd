// NVIDIA GPUs, by kernels that NVRTC compiles and NVIDIA's libraries. Nothing of CUDA is needed to build; the
// driver and the libraries are looked for when the first device is.

#include "backend/cuda/cuda.h"

#include <fmt/format.h>

#include <utility>

#include "backend/cuda/buffer.h"
#include "backend/cuda/device.h"
#include "backend/cuda/module.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/session.h"
#include "eval/eval.h"
#include "systole/backend/cuda.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

using runtime::BufferRef;

constexpr const char* kCollectives = "collectives need several devices that know each other";
constexpr const char* kNoKernelSource = "needs a body graph: this backend runs no kernel source";

void check_kernels(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::kernel_call && node.graphs.empty())
      throw Error(ErrorKind::kUnsupported, "kernel_call",
                  fmt::format("\"{}\" {}", node.as<ir::KernelAttrs>().name, kNoKernelSource));
    for (const ir::GraphRef& sub : node.graphs) check_kernels(*sub);
  }
}

class CudaExecutable final : public runtime::Executable {
 public:
  explicit CudaExecutable(std::shared_ptr<const Module> module) : module_(std::move(module)) {}
  std::unique_ptr<runtime::Session> new_session() const override { return make_session(module_); }
  std::int64_t device_count() const override { return 1; }

 private:
  const std::shared_ptr<const Module> module_;
};

class CudaBackend final : public runtime::Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::vector<runtime::DeviceInfo> devices() override {
    std::vector<runtime::DeviceInfo> found;
    if (all_devices().usable.empty() || !nvrtc_absence().empty()) return found;
    for (const auto& device : all_devices().usable)
      found.push_back({{"cuda", {}, device->ordinal()},
                       fmt::format("{}, {}", device->name(), device->architecture()),
                       device->memory_bytes()});
    return found;
  }
  std::string unavailable_reason() override {
    const Devices& all = all_devices();
    if (all.usable.empty()) return all.left_out;
    const std::string no_compiler = nvrtc_absence();
    return no_compiler.empty() ? all.left_out : no_compiler;
  }
  BufferRef upload(const Literal& value, int ordinal) override { return uploaded(value, device_of(ordinal)); }
  BufferRef copy_from(const runtime::Buffer& buffer, int ordinal) override {
    return copied(buffer, device_of(ordinal));
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int ordinal,
                                                     const runtime::CompileOptions& options) override {
    if (!graph.is_static())
      throw Error(ErrorKind::kShape, "cuda", "a graph with symbols must be bound to numbers first");
    if (eval::uses_collectives(graph)) throw Error(ErrorKind::kUnsupported, "cuda", kCollectives);
    check_kernels(graph);
    return std::make_shared<CudaExecutable>(make_module(device_of(ordinal), graph, options));
  }
  std::string refusal(ir::Op op) const override {
    if (op == ir::Op::kernel_call) return kNoKernelSource;
    return ir::info(op).op_class == ir::OpClass::collective ? kCollectives : "";
  }
};

}  // namespace

std::unique_ptr<runtime::Backend> make_backend() { return std::make_unique<CudaBackend>(); }

bool is_available() { return device_count() > 0; }
int device_count() { return static_cast<int>(runtime::backend("cuda").devices().size()); }
std::string unavailable_reason() { return runtime::backend("cuda").unavailable_reason(); }

}  // namespace systole::cuda
