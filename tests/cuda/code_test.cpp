// Machine code of kernels and the cache: what a program wants again is found, whatever it was compiled with.

#include "backend/cuda/code.h"

#include <algorithm>
#include <filesystem>

#include "../kernel_check.h"
#include "fake_check.h"
#include "systole/ops.h"

namespace systole::cuda {
namespace {

using codegen::Kernel;
using Names = std::vector<std::string>;

class CudaCode : public FakeCuda {
 protected:
  // y = x + x + … of n
  static Kernel kernel(const std::string& name, int n) {
    ir::Graph graph(name);
    const ir::Value x = graph.input("x", {DType::f32, {kLength}});
    ir::Value y = x;
    for (int i = 1; i < n; ++i) y = ops::mul(ops::add(y, x), x);
    graph.output(y);
    return *codegen::make_kernel(kernel_check::step_of(graph), name, codegen::Dialect::cuda);
  }
  // The names in every part, in order.
  static std::vector<Names> names(const std::vector<Code>& all) {
    std::vector<Names> found;
    for (const Code& code : all) {
      EXPECT_FALSE(code.bytes.empty());
      found.push_back(code.kernels);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<std::filesystem::path> parts() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.path().filename().string().starts_with("cuda-")) found.push_back(entry.path());
    return found;
  }

  const runtime::CacheKey program_{"program"};
};

TEST_F(CudaCode, OfSomeKernelsIsFoundInWhatWasCompiledWithOthers) {
  SYSTOLE_NEEDS_NVRTC();
  const FakeDriver fake;
  const Device device(0);
  const Kernel a = kernel("a", 2), b = kernel("b", 3), c = kernel("c", 4);
  const std::vector<Code> first = compiled(device, program_, {a, b});
  EXPECT_EQ(names(first), (std::vector<Names>{{"a", "b"}}));
  EXPECT_EQ(parts().size(), 1u);
  const std::vector<Code> again = compiled(device, program_, {b});
  EXPECT_EQ(names(again), (std::vector<Names>{{"b"}}));
  EXPECT_EQ(again[0].bytes, first[0].bytes);
  EXPECT_EQ(parts().size(), 1u);
  EXPECT_EQ(names(compiled(device, program_, {c, b})), (std::vector<Names>{{"b"}, {"c"}}));
  EXPECT_EQ(parts().size(), 2u);
  EXPECT_EQ(names(compiled(device, program_, {a, c})), (std::vector<Names>{{"a"}, {"c"}}));
  EXPECT_EQ(parts().size(), 2u);
}

TEST_F(CudaCode, IsMadeAgainWhereAPartIsGoneAndWhenAKernelIsAnother) {
  SYSTOLE_NEEDS_NVRTC();
  const FakeDriver fake;
  const Device device(0);
  (void)compiled(device, program_, {kernel("a", 2)});
  std::filesystem::remove(parts().at(0));
  EXPECT_EQ(names(compiled(device, program_, {kernel("a", 2)})), (std::vector<Names>{{"a"}}));
  EXPECT_EQ(parts().size(), 1u);
  EXPECT_EQ(names(compiled(device, program_, {kernel("a", 3)})), (std::vector<Names>{{"a"}}));
  EXPECT_EQ(parts().size(), 2u);
}

TEST_F(CudaCode, NeedsNoCache) {
  SYSTOLE_NEEDS_NVRTC();
  const FakeDriver fake;
  const Device device(0);
  ::setenv("SYSTOLE_CACHE", "0", 1);
  EXPECT_EQ(names(compiled(device, program_, {kernel("a", 2)})), (std::vector<Names>{{"a"}}));
  EXPECT_TRUE(parts().empty());
  EXPECT_TRUE(compiled(device, program_, {}).empty());
}

// The first time every form of a large kernel is compiled and timed; from then on the fastest is wanted
// alone.
TEST_F(CudaCode, OfAModuleIsFoundOnceItsFormsWereTimed) {
  SYSTOLE_NEEDS_NVRTC();
  FakeDriver fake;
  fake.set_kernel(2, [](FakeLaunch&) {});
  const Device device(0);
  ir::Graph graph("large");
  const ir::Value x = graph.input("x", {DType::f32, {4 << 20}});
  graph.output(ops::add(x, x));
  (void)make_module(device, graph, {});
  const std::size_t count = parts().size();
  EXPECT_GE(count, 1u);
  const int loaded = fake.count("cuModuleLoadData");
  (void)make_module(device, graph, {});
  EXPECT_EQ(parts().size(), count);
  EXPECT_EQ(fake.count("cuModuleLoadData"), loaded + 1);
}

}  // namespace
}  // namespace systole::cuda
