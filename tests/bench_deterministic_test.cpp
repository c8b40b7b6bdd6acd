// Deterministic mode: the weights after five steps have the same bits in two processes, neither of which
// finds anything that another has compiled or timed. A process is this program with the test that prints
// them.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/models.h"
#include "model_devices.h"
#include "systole/nn/losses.h"
#include "systole/optim.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/transforms.h"

namespace systole::cli::bench {
namespace {

struct Tried {
  const char* name;
  std::int64_t batch;
  const char* dtype;
};

// Models with convolutions, pooling, batch norms, embeddings and attention; few steps of small batches.
std::vector<Tried> tried_on(std::string_view device) {
  if (device == "cuda:0")
    return {{"T2", 64, "tf32"}, {"T4", 16, "bf16"}, {"T5", 8, "tf32"}, {"T6", 1, "bf16"}, {"T1", 64, "fp16"}};
  return {{"T1", 16, "fp16"}, {"T2", 4, "fp32"}};
}

std::uint64_t weights_after_five_steps(Workload work) {
  return with_model(work, [&](auto model) {
    const Parameters all = parameters(model);
    set_hashed(work, all);
    optim::Adam adam(all);
    auto step = compile(
        [&](const Tensor& x, const Tensor& y) {
          const auto loss_of = [&](const Tensor& a, const Tensor& b) {
            return cross_entropy(model.forward(a), b);
          };
          const DType dtype = dtype_of(work);
          auto [loss, grads] = value_and_grad(
              [&] { return dtype == DType::f32 ? loss_of(x, y) : autocast(loss_of, dtype)(x, y); }, all);
          adam.update(grads);
          return loss;
        },
        {.math = work.math, .deterministic = true});
    const Batch batch = batch_of(work);
    const Tensor x(batch.x), y(batch.y);
    for (int i = 0; i < 5; ++i) step(x, y);
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const Variable& v : all.variables()) {
      const Literal value = v.literal();
      for (const std::byte b : value.as_bytes())
        hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3;
    }
    return hash;
  });
}

class BenchDeterministic : public ModelDevice {
 protected:
  std::vector<std::string> weights() const {
    std::vector<std::string> lines;
    for (const Tried& tried : tried_on(GetParam()))
      for (Workload work : workloads(GetParam() == "cuda:0")) {
        if (work.name != tried.name) continue;
        work.batch = tried.batch;
        work.dtype = tried.dtype;
        work.math = work.dtype == "fp32" ? runtime::Math::f32 : runtime::Math::tf32;
        lines.push_back(work.name + " " + std::to_string(weights_after_five_steps(work)));
        break;
      }
    return lines;
  }

  // What another process prints.
  std::vector<std::string> weights_elsewhere() const {
    const testing::TestInfo& own = *testing::UnitTest::GetInstance()->current_test_info();
    const std::string suffix = own.name();
    const std::string command =
        "SYSTOLE_CACHE=0 /proc/" + std::to_string(::getpid()) + "/exe --gtest_also_run_disabled_tests " +
        "--gtest_filter=On/BenchDeterministic.DISABLED_PrintsItsWeights" + suffix.substr(suffix.find('/'));
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    std::vector<std::string> lines;
    for (char line[256]; std::fgets(line, sizeof line, pipe.get()) != nullptr;)
      if (const std::string_view text(line); text.starts_with("weights "))
        lines.emplace_back(text.substr(8, text.size() - 9));
    return lines;
  }
};
INSTANTIATE_TEST_SUITE_P(On, BenchDeterministic, testing::Values("cpu", "cuda:0"), device_suffix);

TEST_P(BenchDeterministic, DISABLED_PrintsItsWeights) {
  for (const std::string& line : weights()) std::printf("weights %s\n", line.c_str());
}

TEST_P(BenchDeterministic, WeightsHaveTheSameBitsInEveryRunAndProcess) {
  const std::vector<std::string> here = weights(), first = weights_elsewhere(), second = weights_elsewhere();
  EXPECT_EQ(here.size(), tried_on(GetParam()).size());
  EXPECT_EQ(here, first);
  EXPECT_EQ(here, second);
  EXPECT_EQ(here, weights());
}

}  // namespace
}  // namespace systole::cli::bench

#endif
