// Which steps a captured graph may run beside each other. Programs here are written by hand: a step reads and
// writes what is listed, and who must wait for whom follows from that alone.

#include <gtest/gtest.h>

#include "backend/cuda/schedule.h"

namespace systole::cuda {
namespace {

using lower::BufferId;
using lower::BufferInfo;

class Hand {
 public:
  BufferId array() { return add(BufferInfo::Role::input, -1); }
  BufferId temporary(std::int64_t offset, std::int64_t bytes = 64) {
    return add(BufferInfo::Role::temporary, offset, bytes);
  }
  void step(std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
    lower::Step step;
    step.inputs = std::move(inputs);
    step.outputs = std::move(outputs);
    program_.steps.push_back(std::move(step));
  }
  Schedule schedule() const { return make_schedule(program_); }
  lower::Program& program() { return program_; }

 private:
  BufferId add(BufferInfo::Role role, std::int64_t offset, std::int64_t bytes = 64) {
    BufferInfo info;
    info.role = role;
    info.offset = offset;
    info.bytes = bytes;
    program_.buffers.push_back(info);
    return static_cast<BufferId>(program_.buffers.size()) - 1;
  }
  lower::Program program_;
};

using Waits = std::vector<std::vector<std::int32_t>>;

TEST(Schedule, AChainStaysInOneLane) {
  Hand hand;
  const BufferId x = hand.array(), a = hand.temporary(0), b = hand.temporary(64);
  hand.step({x}, {a});
  hand.step({a}, {b});
  hand.step({b}, {a});
  EXPECT_EQ(hand.schedule().lanes, 1);
}

TEST(Schedule, WhatSharesNothingGoesBesideAndIsAwaitedWhereItIsRead) {
  Hand hand;
  const BufferId x = hand.array(), y = hand.array();
  const BufferId a = hand.temporary(0), b = hand.temporary(64), c = hand.temporary(128);
  hand.step({x}, {a});
  hand.step({y}, {b});
  hand.step({a, b}, {c});
  const Schedule schedule = hand.schedule();
  EXPECT_EQ(schedule.lanes, 2);
  EXPECT_NE(schedule.lane[0], schedule.lane[1]);
  ASSERT_EQ(schedule.waits[2].size(), 1u);
  EXPECT_NE(schedule.lane[static_cast<std::size_t>(schedule.waits[2][0])], schedule.lane[2]);
  EXPECT_TRUE(schedule.is_awaited[static_cast<std::size_t>(schedule.waits[2][0])]);
}

TEST(Schedule, MemoryThatIsUsedAgainIsADependency) {
  Hand hand;
  const BufferId x = hand.array(), y = hand.array(), z = hand.array();
  const BufferId a = hand.temporary(0, 128), again = hand.temporary(64), c = hand.temporary(256);
  hand.step({x}, {a});
  hand.step({a}, {c});      // reads what the next one overwrites
  hand.step({y}, {again});  // the same bytes
  hand.step({z}, {z});      // in place, nobody else's
  const Schedule schedule = hand.schedule();
  EXPECT_EQ(schedule.lane[2], schedule.lane[1]);
  EXPECT_NE(schedule.lane[3], schedule.lane[1]);
}

TEST(Schedule, WhatIsKnownToBeDoneIsNotAwaitedTwice) {
  Hand hand;
  const BufferId x = hand.array(), y = hand.array();
  const BufferId a = hand.temporary(0), b = hand.temporary(64), c = hand.temporary(128),
                 d = hand.temporary(192);
  hand.step({x}, {a});
  hand.step({y}, {b});
  hand.step({a, b}, {c});
  hand.step({a, b, c}, {d});
  const Schedule schedule = hand.schedule();
  EXPECT_EQ(schedule.waits[3], std::vector<std::int32_t>{});
  EXPECT_EQ(schedule.lane[3], schedule.lane[2]);
}

TEST(Schedule, LoopsStayWhereTheHostPutsThem) {
  Hand hand;
  const BufferId x = hand.array(), y = hand.array(), a = hand.temporary(0), b = hand.temporary(64);
  hand.step({x}, {a});
  hand.step({y}, {b});
  hand.program().steps[1].programs.push_back(std::make_shared<const lower::Program>());
  EXPECT_EQ(hand.schedule().lane[1], 0);
}

}  // namespace
}  // namespace systole::cuda
