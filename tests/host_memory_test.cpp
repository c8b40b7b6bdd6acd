// On devices that compute in the host's memory data are read where they lie, and what writes to a buffer
// never writes to what it borrowed.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "error_check.h"
#include "runtime/source_kernels.h"
#include "sanitized.h"
#include "systole/systole.h"
#include "tensor/borrowed.h"
#include "tensor/record.h"

namespace systole {
namespace {

using recording::borrowed;
using Floats = std::vector<float>;

class HostMemory : public testing::TestWithParam<const char*> {
 protected:
  const std::string device = GetParam();
};

TEST_P(HostMemory, ABorrowedValueLiesWhereItLay) {
  const Literal value = Literal::of<float>({3}, {1, 2, 3});
  const Tensor x = borrowed(value, device);
  EXPECT_EQ(x.device().backend, device);
  EXPECT_EQ(x.literal().bytes(), value.bytes());
  EXPECT_EQ((x * 2).to_vector<float>(), (Floats{2, 4, 6}));
  // A place that is aligned for its dtype alone, as in a mapped file.
  std::vector<float> memory(1026);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const Tensor odd = borrowed(Literal::view({DType::f32, {1025}}, memory.data() + 1), device);
  EXPECT_EQ(sum(odd).item<float>(), 1025.0f * 1026 / 2);
}

TEST_P(HostMemory, AVariableThatIsUpdatedInPlaceDoesNotWriteToWhatItBorrowed) {
  std::vector<float> memory{1, 2, 3};
  const Literal view = Literal::view({DType::f32, {3}}, memory.data());
  Variable w(borrowed(view, device));
  const auto step = compile([&] {
    w.assign(w + 1);
    return sum(w.value());
  });
  EXPECT_EQ(step().item<float>(), 9);
  EXPECT_EQ(step().item<float>(), 12);
  EXPECT_EQ(w.value().to_vector<float>(), (Floats{3, 4, 5}));
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3}));
}

INSTANTIATE_TEST_SUITE_P(, HostMemory, testing::Values("cpu", "reference"));

TEST(HostMemoryOfTheProcessor, IsCopiedBeforeAnythingIsWrittenToIt) {
  std::vector<float> memory{1, 2, 3};
  const Literal view = Literal::view({DType::f32, {3}}, memory.data());
  auto& backend = dynamic_cast<runtime::SourceBackend&>(runtime::backend("cpu"));
  const Tensor x = borrowed(view, "cpu");
  const runtime::BufferRef buffer = x.record()->buffer;
  Floats seen(3);
  backend.read({buffer.get(), 0, 12}, std::as_writable_bytes(std::span(seen)));
  EXPECT_EQ(seen, (Floats{1, 2, 3}));
  EXPECT_EQ(buffer->to_host().bytes(), view.bytes());  // reading copies nothing
  const float seven = 7;
  backend.fill({buffer.get(), 4, 4}, std::as_bytes(std::span(&seven, 1)), nullptr);
  EXPECT_EQ(buffer->to_host().to_doubles(), (std::vector<double>{1, 7, 3}));
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3}));
  const auto address = backend.address(*buffer);
  EXPECT_NE(reinterpret_cast<const void*>(address), memory.data());
}

struct Net {
  nn::Linear fc{4, 2};
  Tensor forward(const Tensor& x) const { return fc(x); }
};

// A selection, a part and a renamed one are read in place too: the numbers are those of a copy.
TEST(DataInPlace, ASelectionTrainsLikeItsCopy) {
  Literal x = Literal::uninitialized({DType::f32, {40, 4}}), y = Literal::uninitialized({DType::i32, {40}});
  for (std::size_t i = 0; i < 160; ++i)
    x.mutable_values<float>()[i] = static_cast<float>(i * 37 % 23) / 23.0f - 0.5f;
  for (std::size_t i = 0; i < 40; ++i)
    y.mutable_values<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7 % 3 == 0);
  const data::Source all = data::arrays(x, y);
  const data::Source chosen = all.select({5, 3, 17, 39, 0, 8, 9, 22, 31, 30, 12, 1}).named("chosen").skip(1);
  const std::vector<Literal> copy = chosen.read({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const auto trained = [&](const data::Source& source, const char* device, std::int64_t device_bytes) {
    const DeviceScope scope(device);
    random::seed(4);
    Net net;
    training::Trainer trainer(net, optim::SGD(parameters(net), {.lr = 0.3}), {.metrics = {"accuracy"}});
    const training::FitResult result = trainer.fit(
        source,
        {.epochs = 3, .batch = 4, .validation = source.take(7), .verbose = 0, .device_bytes = device_bytes});
    Floats numbers = net.fc.weight.value().to_vector<float>();
    for (const char* column : {"loss", "val_loss"})
      for (const double value : result[column]) numbers.push_back(static_cast<float>(value));
    return numbers;
  };
  for (const char* device : {"cpu", "reference"}) {
    const Floats expected = trained(data::arrays({copy[0], copy[1]}), device, std::int64_t{1} << 30);
    EXPECT_EQ(trained(chosen, device, std::int64_t{1} << 30), expected) << device;
    EXPECT_EQ(trained(chosen, device, 0), expected) << device;
  }
  EXPECT_EQ(chosen.labels(), copy[1].to_doubles().size() == 11
                                 ? std::vector<std::int64_t>(copy[1].values<std::int32_t>().begin(),
                                                             copy[1].values<std::int32_t>().end())
                                 : std::vector<std::int64_t>{});
}

// 384 MiB of data under a limit of 224 MiB more than the process has with them: a copy would not fit.
TEST(DataInPlace, ATrainingNeedsNoSecondCopyOfItsData) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes all addresses there are";
  constexpr std::int64_t kRows = 384 * 1024;
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const DeviceScope scope("cpu");
      const auto train = [](const data::Source& source) {
        nn::Linear fc(1024, 2);
        training::Trainer trainer(fc, "sgd");
        trainer.fit(source, {.batch = 8,
                             .steps_per_epoch = 2,
                             .validation = source.take(kRows / 2),
                             .validation_steps = 1,
                             .verbose = 0});
      };
      const auto data = [](std::int64_t rows) {
        Literal x = Literal::uninitialized({DType::u8, {rows, 1024}});
        std::memset(x.mutable_bytes(), 1, x.byte_size());
        return data::arrays({x, Literal(Type{DType::i32, {rows}})});
      };
      train(data(64));  // loads what compiles
      const data::Source large = data(kRows);
      std::ifstream statm("/proc/self/statm");
      std::size_t pages = 0;
      statm >> pages;
      rlimit limit{};
      ::getrlimit(RLIMIT_AS, &limit);
      limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (std::size_t{224} << 20);
      ::setrlimit(RLIMIT_AS, &limit);
      train(large);
      train(large.select([] {
        std::vector<std::int64_t> rows(static_cast<std::size_t>(kRows - 64));
        std::iota(rows.rbegin(), rows.rend(), 32);
        return rows;
      }()));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A device that has no room.
struct FullBackend : runtime::Backend {
  std::string_view name() const override { return "full"; }
  std::vector<runtime::DeviceInfo> devices() override { return {{{"full", {}, 0}, "for tests"}}; }
  runtime::BufferRef upload(const Literal& value, int ordinal) override {
    if (value.byte_size() > 1000) throw Error(ErrorKind::kOutOfMemory, "full:0", "no memory for it");
    return runtime::backend("reference").upload(value, ordinal);
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int ordinal,
                                                     const runtime::CompileOptions& options) override {
    return runtime::backend("reference").compile(graph, ordinal, options);
  }
  std::string refusal(ir::Op) const override { return {}; }
};

TEST(DataInPlace, WithoutRoomOnTheDeviceTheErrorNamesTheSettings) {
  runtime::register_backend(
      "full", 7000, [] { return std::unique_ptr<runtime::Backend>(std::make_unique<FullBackend>()); });
  Net net;
  training::Trainer trainer(net, "sgd", {.device = "full"});
  const data::Source source =
      data::arrays({Literal(Type{DType::f32, {500, 4}}), Literal(Type{DType::i32, {500}})});
  for (const std::string& message :
       {error_of(ErrorKind::kOutOfMemory, [&] { trainer.fit(source, {.verbose = 0}); }),
        error_of(ErrorKind::kOutOfMemory, [&] { trainer.evaluate(source); })})
    for (const char* part : {"device_bytes", "train.device_gigabytes", "10000 bytes", "full"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace
}  // namespace systole
