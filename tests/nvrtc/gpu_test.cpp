// The kernels of every fixture on an NVIDIA GPU, where there is one: what differs from OpenCL, which runs
// them everywhere else, is the exchange between the lanes of a warp. Memory is shared with the host, so steps
// without a kernel are evaluated.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../program_check.h"
#include "compare.h"
#include "eval/eval.h"
#include "nvrtc.h"
#include "systole/base/error.h"
#include "systole/ops.h"

namespace systole {

namespace {

// The part of the driver that is called.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*allocate)(std::uint64_t*, std::size_t, unsigned) = nullptr;
  int (*free)(std::uint64_t) = nullptr;
  int (*load)(void**, const void*) = nullptr;
  int (*unload)(void*) = nullptr;
  int (*find)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**) = nullptr;
  int (*synchronize)() = nullptr;
};

void check(int status, const char* call) {
  if (status != 0) throw Error(ErrorKind::kInternal, "gpu", call, "0 (CUDA_SUCCESS)", std::to_string(status));
}

bool load(Driver& driver) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  return find(driver.init, "cuInit") && find(driver.device, "cuDeviceGet") &&
         find(driver.attribute, "cuDeviceGetAttribute") && find(driver.retain, "cuDevicePrimaryCtxRetain") &&
         find(driver.set_current, "cuCtxSetCurrent") && find(driver.allocate, "cuMemAllocManaged") &&
         find(driver.free, "cuMemFree_v2") && find(driver.load, "cuModuleLoadData") &&
         find(driver.unload, "cuModuleUnload") && find(driver.find, "cuModuleGetFunction") &&
         find(driver.launch, "cuLaunchKernel") && find(driver.synchronize, "cuCtxSynchronize") &&
         driver.init(0) == 0;
}

class Gpu {
 public:
  explicit Gpu(const Driver& driver) : driver_(driver) {
    int device = 0, major = 0, minor = 0;
    void* context = nullptr;
    check(driver.device(&device, 0), "cuDeviceGet");
    check(driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(driver.set_current(context), "cuCtxSetCurrent");
    constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
    check(driver.attribute(&major, kMajor, device), "cuDeviceGetAttribute");
    check(driver.attribute(&minor, kMinor, device), "cuDeviceGetAttribute");
    architecture_ = fmt::format("sm_{}{}", major, minor);
  }
  const std::string& architecture() const { return architecture_; }
  const Driver& driver() const { return driver_; }

  // Memory of host and GPU, freed with the array.
  using Bytes = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  Bytes allocate(std::size_t bytes) const {
    constexpr unsigned kGlobal = 1;  // CU_MEM_ATTACH_GLOBAL
    std::uint64_t address = 0;
    check(driver_.allocate(&address, std::max<std::size_t>(bytes, 1), kGlobal), "cuMemAllocManaged");
    auto* const memory = reinterpret_cast<std::byte*>(address);
    shared_[memory] = bytes;
    return {memory, [this](std::byte* p) {
              shared_.erase(p);
              driver_.free(reinterpret_cast<std::uint64_t>(p));
            }};
  }
  bool is_shared(const std::byte* p) const {
    const auto after = shared_.upper_bound(p);
    return after != shared_.begin() && p <= std::prev(after)->first + std::prev(after)->second;
  }
  Bytes copy(const void* from, std::size_t bytes) const {
    Bytes made = allocate(bytes);
    if (bytes > 0) std::memcpy(made.get(), from, bytes);
    return made;
  }

 private:
  const Driver& driver_;
  std::string architecture_;
  mutable std::map<const std::byte*, std::size_t> shared_;  // bytes, by where they begin
};

// A few Programs and all their kernels.
class Batch {
 public:
  Batch(const Gpu& gpu, const nvrtc::Api& api) : gpu_(gpu), api_(api) {}
  ~Batch() {
    if (module_ != nullptr) gpu_.driver().unload(module_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Steps that have a form of this number take it.
  void add(const lower::Program& program, std::size_t form = 0) {
    for (const lower::Step& step : program.steps) {
      for (const auto& inner : step.programs) add(*inner, form);
      const std::string name = fmt::format("k{}", kernels_.distinct().size());
      const std::vector<codegen::Form> forms = codegen::forms(step);
      for (codegen::Kernel& kernel :
           codegen::make_kernels(step, name, codegen::Dialect::cuda, forms[form < forms.size() ? form : 0])) {
        const Call call{{}, kernel.groups, kernel.threads, kernel.scratch};
        calls_[&step].push_back(call);
        calls_[&step].back().name = kernels_.add(std::move(kernel));
      }
    }
  }
  void compile() {
    const std::vector<char> code = nvrtc::machine_code(
        api_, codegen::source_file(kernels_.distinct(), codegen::Dialect::cuda), gpu_.architecture());
    check(gpu_.driver().load(&module_, code.data()), "cuModuleLoadData");
  }

  std::vector<Literal> run(const lower::Program& program, const std::vector<Literal>& arguments) {
    std::vector<Gpu::Bytes> held;
    std::vector<std::byte*> inputs, outputs;
    const auto keep = [&](Gpu::Bytes memory) { return held.emplace_back(std::move(memory)).get(); };
    for (const Literal& x : arguments) inputs.push_back(keep(gpu_.copy(x.bytes(), x.byte_size())));
    for (const lower::BufferId b : program.outputs) {
      const lower::BufferInfo& memory = program.buffers[static_cast<std::size_t>(program.memory_of(b))];
      outputs.push_back(memory.role == lower::BufferInfo::Role::input
                            ? inputs[static_cast<std::size_t>(memory.position)]
                            : keep(gpu_.allocate(static_cast<std::size_t>(memory.bytes))));
    }
    const program_check::OtherMeans launch = [this](const lower::Program& of, const lower::Step& step,
                                                    const std::vector<std::byte*>& buffers) {
      return this->launch(of, step, buffers);
    };
    program_check::Runner(program, inputs, outputs,
                          keep(gpu_.allocate(static_cast<std::size_t>(program.arena_bytes))), &launch)
        .run();
    std::vector<Literal> results;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Type& type = program.buffers[static_cast<std::size_t>(program.outputs[i])].type;
      results.push_back(Literal::copy_of(type, {outputs[i], static_cast<std::size_t>(type.bytes())}));
    }
    return results;
  }

 private:
  struct Call {
    std::string name;
    std::int64_t groups = 0;
    int threads = 0;
    bool scratch = false;
  };

  bool launch(const lower::Program& program, const lower::Step& step, std::vector<std::byte*> buffers) {
    const auto found = calls_.find(&step);
    if (found == calls_.end()) return false;
    // A constant of the Program, or the answer of a loop's condition, lies in the host's own memory.
    struct Copy {
      std::byte* host;
      std::size_t bytes;
      Gpu::Bytes shared;
    };
    std::vector<Copy> copies;
    const auto share = [&](std::size_t i, lower::BufferId b) {
      if (gpu_.is_shared(buffers[i])) return;
      const auto bytes = static_cast<std::size_t>(program.buffers[static_cast<std::size_t>(b)].bytes);
      copies.push_back({buffers[i], bytes, gpu_.copy(buffers[i], bytes)});
      buffers[i] = copies.back().shared.get();
    };
    for (std::size_t i = 0; i < step.inputs.size(); ++i) share(i, step.inputs[i]);
    const std::size_t written = copies.size();
    for (std::size_t i = 0; i < step.outputs.size(); ++i) share(step.inputs.size() + i, step.outputs[i]);
    std::vector<void*> parameters;
    for (std::byte*& buffer : buffers) parameters.push_back(&buffer);
    for (const Call& call : found->second) {
      if (call.groups == 0) continue;
      void* function = nullptr;
      check(gpu_.driver().find(&function, module_, call.name.c_str()), "cuModuleGetFunction");
      check(gpu_.driver().launch(function, static_cast<unsigned>(call.groups), 1, 1,
                                 static_cast<unsigned>(call.threads), 1, 1, 0, nullptr, parameters.data(),
                                 nullptr),
            "cuLaunchKernel");
    }
    check(gpu_.driver().synchronize(), "cuCtxSynchronize");
    for (std::size_t i = written; i < copies.size(); ++i)
      std::memcpy(copies[i].host, copies[i].shared.get(), copies[i].bytes);
    return true;
  }

  const Gpu& gpu_;
  const nvrtc::Api& api_;
  codegen::KernelSet kernels_;
  std::map<const lower::Step*, std::vector<Call>> calls_;
  void* module_ = nullptr;
};

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!load(driver_)) GTEST_SKIP() << "no NVIDIA GPU on this machine";
    api_ = nvrtc::find();
    if (api_ == nullptr) GTEST_SKIP() << "no NVRTC: scripts/setup fetches it";
  }
  Driver driver_;
  const nvrtc::Api* api_ = nullptr;
};

TEST_F(OnGpu, EveryFixtureHolds) {
  const Gpu gpu(driver_);
  constexpr std::size_t kFixtures = 24;  // of one file: starting the compiler costs more than a kernel
  const nvrtc::Shard shard = nvrtc::shard();
  const std::vector<std::string> all = conformance::fixture_names();
  std::vector<std::string> mine;
  for (std::size_t i = shard.index; i < all.size(); i += shard.count) mine.push_back(all[i]);
  int rows = 0;
  for (std::size_t first = 0; first < mine.size(); first += kFixtures) {
    Batch batch(gpu, *api_);
    std::vector<std::pair<conformance::Fixture, lower::Program>> cases;
    for (std::size_t i = first; i < std::min(first + kFixtures, mine.size()); ++i)
      for (const bool optimize : {true, false}) {
        conformance::Fixture fixture = conformance::load_fixture(mine[i]);
        if (std::optional<lower::Program> program = nvrtc::program_of(fixture, optimize))
          cases.emplace_back(std::move(fixture), *std::move(program));
      }
    for (const auto& [fixture, program] : cases) batch.add(program);
    batch.compile();
    for (const auto& [fixture, program] : cases) {
      SCOPED_TRACE(fixture.name);
      const std::vector<Literal> results = batch.run(program, fixture.arguments[0]);
      const ir::Graph typed = conformance::bound_graph(fixture);
      const conformance::Rule rule{conformance::row_tolerance(fixture.name), true};
      for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_EQ(conformance::compare(results[i], typed.output_type(i), fixture.expected[0][i], rule), "")
            << fixture.graph.outputs()[i].name;
      ++rows;
    }
  }
  fmt::print("{} Programs on {}\n", rows, gpu.architecture());
}

// Rows that one thread has, several threads of a warp, a warp, a group.
TEST_F(OnGpu, SoftmaxOfRowsOfEveryLength) {
  const Gpu gpu(driver_);
  constexpr std::int64_t kRows = 37;
  for (const std::int64_t length : {1, 2, 3, 7, 8, 31, 32, 33, 64, 100, 512, 513, 1000, 5000, 20000}) {
    ir::Graph graph("softmax");
    graph.output(ops::softmax(graph.input("x", {DType::f32, {kRows, length}})));
    std::vector<float> x(static_cast<std::size_t>(kRows * length));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 4001) / 1000 - 2;
    const lower::Program program = nvrtc::program_of(graph, true);
    Batch batch(gpu, *api_);
    batch.add(program);
    batch.compile();
    const std::vector<Literal> results = batch.run(program, {Literal::of<float>({kRows, length}, x)});
    const auto got = results[0].values<float>();
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto row = static_cast<std::size_t>(r * length);
      double sum = 0;
      for (std::size_t i = row; i < row + static_cast<std::size_t>(length); ++i)
        sum += std::exp(static_cast<double>(x[i]));
      for (std::size_t i = row; i < row + static_cast<std::size_t>(length); ++i)
        ASSERT_NEAR(got[i], std::exp(static_cast<double>(x[i])) / sum, 4e-6 / sum) << length << " " << i;
    }
  }
}

// A Target whose long columns are cut.
class Cutting final : public lower::Target {
 public:
  std::string_view name() const override { return "cutting"; }
  lower::KernelLimits limits() const override { return {.cuts_rows = true}; }
};

// Rows, columns, columns in chunks and elementwise work, in every form, against the evaluation.
TEST_F(OnGpu, EveryFormGivesTheSame) {
  const Gpu gpu(driver_);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Shape& shape : {Shape{40, 1000}, Shape{9, 8192}, Shape{3, 20000}, Shape{512, 128},
                               Shape{20000, 64}, Shape{4100, 33}}) {
      ir::Graph graph("forms");
      const ir::Value x = ops::convert(graph.input("x", {DType::f32, shape}), dtype);
      const ir::Value wide = ops::convert(x, DType::f32);
      graph.output(ops::softmax(x));
      const ir::Value sums = ops::sum(ops::mul(wide, wide), {0});
      graph.output(sums);
      graph.output(ops::convert(ops::sub(wide, ops::broadcast(sums, shape, {1})), dtype));
      graph.output(ops::exp(ops::neg(x)));
      std::vector<float> numbers(static_cast<std::size_t>(shape.count()));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<float>(i * 2654435761u % 4001) / 8000 - 0.25f;
      const std::vector<Literal> arguments{Literal::of<float>(shape, numbers)};
      const Cutting target;
      const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
      const std::vector<Literal> expected = eval::evaluate(graph, arguments);
      for (std::size_t form = 0; form < 4; ++form) {
        SCOPED_TRACE(fmt::format("{} {} form {}", name(dtype), shape.to_string(), form));
        Batch batch(gpu, *api_);
        batch.add(program, form);
        batch.compile();
        const std::vector<Literal> results = batch.run(program, arguments);
        for (std::size_t i = 0; i < results.size(); ++i) {
          const std::vector<double> got = results[i].to_doubles(), wanted = expected[i].to_doubles();
          const double least = graph.output_type(i).dtype == DType::bf16 ? 1e-2 : 2e-5;
          for (std::size_t k = 0; k < got.size(); ++k)
            ASSERT_NEAR(got[k], wanted[k], least * (1 + std::abs(wanted[k]))) << i << " at " << k;
        }
      }
    }
}

}  // namespace

}  // namespace systole
