// Memory of the processor's buffers: freed blocks are used again, and only for their own size.

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "backend/cpu/memory.h"
#include "error_check.h"

namespace systole {

namespace {

TEST(CpuMemory, AFreedBlockIsUsedAgain) {
  std::shared_ptr<std::byte> block = cpu::allocate(12345);
  const std::byte* const first = block.get();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % cpu::kAlignment, 0u);
  block.reset();
#ifndef __SANITIZE_ADDRESS__
  EXPECT_GE(cpu::kept_bytes(), 12345);
  const std::shared_ptr<std::byte> other = cpu::allocate(12346), same = cpu::allocate(12345);
  EXPECT_EQ(same.get(), first);
  EXPECT_NE(other.get(), first);
#endif
}

TEST(CpuMemory, NothingIsNull) { EXPECT_EQ(cpu::allocate(0), nullptr); }

TEST(CpuMemory, WhatThereIsNotIsRefusedWithItsSize) {
  try {
    cpu::allocate(std::int64_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos) << error.what();
  }
}

TEST(CpuMemory, ThreadsTakeAndFreeAtOnce) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 2000; ++i) {
        const std::int64_t bytes = 64 * (1 + i % 7);
        const std::shared_ptr<std::byte> block = cpu::allocate(bytes);
        std::memset(block.get(), t, static_cast<std::size_t>(bytes));
        for (std::int64_t k = 0; k < bytes; ++k) ASSERT_EQ(block.get()[k], std::byte(t));
      }
    });
}

}  // namespace

}  // namespace systole
