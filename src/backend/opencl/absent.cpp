// Stands for the backend in a build without OpenCL's headers.

#include "backend/opencl/opencl.h"
#include "systole/base/error.h"

namespace systole::opencl {

namespace {

constexpr const char* kReason = "built without OpenCL's headers";

class Absent final : public runtime::Backend {
 public:
  std::string_view name() const override { return "opencl"; }
  std::vector<runtime::DeviceInfo> devices() override { return {}; }
  std::string unavailable_reason() override { return kReason; }
  runtime::BufferRef upload(const Literal&, int) override { refuse(); }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph&, int,
                                                     const runtime::CompileOptions&) override {
    refuse();
  }
  std::string refusal(ir::Op) const override { return kReason; }

 private:
  [[noreturn]] static void refuse() { throw Error(ErrorKind::kUnsupported, "opencl", kReason); }
};

}  // namespace

std::unique_ptr<runtime::Backend> make_backend() { return std::make_unique<Absent>(); }

}  // namespace systole::opencl
