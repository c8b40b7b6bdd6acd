// Which steps a captured graph may run beside each other. Programs here are written by hand: a step reads and
// writes what is listed, and who must wait for whom follows from that alone.

#include <gtest/gtest.h>

#include <optional>

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
  Schedule schedule(std::optional<std::int32_t> carries = {}) const {
    return make_schedule(program_, carries);
  }
  BufferId input(std::int32_t position) {
    const BufferId made = array();
    program_.buffers.back().position = position;
    return made;
  }
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

// The carry is written by the turn before, and `a` read by its second step; x is another slice in every turn.
TEST(Schedule, StepsThatNeedNothingOfTheTurnBeforeWaitForTheirMemoryAlone) {
  Hand hand;
  const BufferId carry = hand.input(0), x = hand.input(1);
  const BufferId a = hand.temporary(0), b = hand.temporary(64), c = hand.temporary(128);
  hand.step({x}, {a});
  hand.step({carry, a}, {b});
  hand.step({b}, {c});
  hand.step({carry, c}, {carry});
  const Schedule schedule = hand.schedule(1);
  EXPECT_TRUE(schedule.has_early);
  EXPECT_EQ(schedule.lanes, 1);
  EXPECT_EQ(schedule.lane, (std::vector<std::int32_t>{1, 0, 0, 0}));
  EXPECT_EQ(schedule.waits, (Waits{{}, {0}, {}, {}}));
  EXPECT_EQ(schedule.turn_before, (Waits{{1}, {}, {}, {}}));
  EXPECT_EQ(schedule.is_awaited, (std::vector<bool>{true, true, false, false}));
  EXPECT_FALSE(hand.schedule().has_early);   // no scan
  EXPECT_FALSE(hand.schedule(2).has_early);  // x is a carry too
}

TEST(Schedule, AnEarlyStepWaitsForTheLastWhoHasItsMemory) {
  Hand hand;
  const BufferId carry = hand.input(0), x = hand.input(1);
  const BufferId a = hand.temporary(0), b = hand.temporary(64), again = hand.temporary(32);
  hand.step({x}, {a});
  hand.step({carry, a}, {b});
  hand.step({b}, {again});  // bytes of a
  hand.step({again}, {carry});
  EXPECT_EQ(hand.schedule(1).turn_before, (Waits{{3}, {}, {}, {}}));
}

// What nobody of the turn reads would never be awaited.
TEST(Schedule, WhatNobodyReadsIsNotEarly) {
  Hand hand;
  const BufferId carry = hand.input(0), x = hand.input(1);
  const BufferId a = hand.temporary(0), b = hand.temporary(64);
  hand.step({x}, {a});
  hand.step({a}, {b});
  hand.step({carry}, {carry});
  EXPECT_FALSE(hand.schedule(1).has_early);
}

}  // namespace
}  // namespace systole::cuda
