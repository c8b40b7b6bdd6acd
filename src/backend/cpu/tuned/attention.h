#pragma once

// Attention and its gradient in f32, and in bf16 and f16 that are widened as they are read. Operands may lie
// at strides as long as their rows are dense. The scores never go to memory, and results do not depend on the
// number of threads: work is cut by the sizes alone, and what is summed over items is summed in their order.

#include <cstdint>

#include "backend/cpu/tuned/tuned.h"
#include "backend/patterns/attention.h"

namespace systole::cpu {

// How the work is cut. An item of the forward pass is a block of queries of one head; of the gradient it is
// a range of keys of one head.
struct AttentionTiles {
  std::int64_t queries = 64;  // of an item, and those whose weights a gradient holds at a time
  std::int64_t keys = 64;     // whose scores are held at a time, a multiple of 32
  std::int64_t ranges = 1;    // of the keys of a head
};

patterns::AttentionRules attention_rules();  // what the kernels read

Tuned make_attention(const lower::Region& region, const std::string& kernel_name);

// For the kernel lab, which tries other tiles.
AttentionTiles attention_tiles(const patterns::Attention& attention);
Tuned attention_kernels(const patterns::Attention& attention, const AttentionTiles& tiles,
                        const std::string& kernel_name);

}  // namespace systole::cpu
