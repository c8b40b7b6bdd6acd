// What backends check before every run: wrong arguments are named, right ones cost no memory, and only a
// donated buffer that is given once may be written into.

#include "backend/arguments.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "compile/program.h"
#include "error_check.h"

namespace {
std::atomic<int> allocations{0};
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes != 0 ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace systole::runtime {
namespace {

constexpr std::size_t kInputs = 50;

class Place final : public Buffer {
 public:
  explicit Place(Type type) : type_(std::move(type)) {}
  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return device_; }
  Literal to_host() const override { return Literal(type_); }

 private:
  const Type type_;
  const DeviceName device_{"other", {}, 3};
};

const Type kType{DType::f32, {4}};

lower::Program program_of_inputs() {
  lower::Program program;
  for (std::size_t i = 0; i < kInputs; ++i) {
    program.buffers.push_back({});
    program.buffers.back().type = kType;
    program.inputs.push_back(static_cast<lower::BufferId>(i));
  }
  return program;
}

RunArguments some_arguments() {
  RunArguments arguments;
  arguments.per_device.emplace_back();
  for (std::size_t i = 0; i < kInputs; ++i) arguments.per_device[0].push_back(std::make_shared<Place>(kType));
  return arguments;
}

BufferState usable(const Buffer&) { return BufferState::usable; }

TEST(Arguments, RightOnesAreCheckedWithoutAllocating) {
  const lower::Program program = program_of_inputs();
  RunArguments arguments = some_arguments();
  arguments.donated = {0, 3, 49};
  Takeable takeable;
  takeable.look_at(arguments);
  const int before = allocations;
  check_arguments("cpu", program, arguments, usable);
  takeable.look_at(arguments);
  EXPECT_EQ(allocations, before);
}

TEST(Arguments, WrongOnesAreNamed) {
  const lower::Program program = program_of_inputs();
  RunArguments arguments = some_arguments();
  arguments.per_device[0][7] = std::make_shared<Place>(Type{DType::f32, {5}});
  EXPECT_NE(error_of(ErrorKind::kShape, [&] { check_arguments("cpu", program, arguments, usable); })
                .find("argument 7"),
            std::string::npos);
  arguments.per_device[0][2] = nullptr;
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { check_arguments("cpu", program, arguments, usable); })
                .find("argument 2"),
            std::string::npos);
}

TEST(Arguments, OnlyADonatedBufferThatIsGivenOnceMayBeTaken) {
  RunArguments arguments = some_arguments();
  Takeable takeable;
  takeable.look_at(arguments);
  EXPECT_FALSE(takeable[0]);
  arguments.per_device[0][9] = arguments.per_device[0][4];
  arguments.donated = {4, 5};
  takeable.look_at(arguments);
  EXPECT_FALSE(takeable[4]);
  EXPECT_TRUE(takeable[5]);
  EXPECT_FALSE(takeable[6]);
  arguments.donated = {6};
  takeable.look_at(arguments);
  EXPECT_FALSE(takeable[5]);
  EXPECT_TRUE(takeable[6]);
  arguments.donated = {};
  takeable.look_at(arguments);
  EXPECT_FALSE(takeable[6]);
}

}  // namespace
}  // namespace systole::runtime
