#pragma once

// Attention and its gradient as libraries take them: composites whose operands lie anywhere in memory, at one
// stride per axis. The results are dense, in row-major order.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compile/strided.h"
#include "compile/target.h"

namespace systole::patterns {

struct Attention {
  using Four = std::array<std::int64_t, 4>;  // batch, head, position, depth
  // An operand, as it lies in one of the region's inputs.
  struct Array {
    std::size_t input = 0;
    std::int64_t offset = 0;  // in elements
    Four strides{};
  };

  bool is_gradient = false;
  DType dtype = DType::bf16;
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0;
  std::int64_t depth = 0, width = 0;  // of q and k, of v
  bool causal = false;
  double scale = 1;           // of the scores
  std::vector<Array> arrays;  // q, k, v; of a gradient o, lse and grad too; lse [b,h,q] has one stride less

  std::string text() const;  // names it, with all strides, for caches and messages
};

// What a reader takes: as it stands here, the libraries of GPUs with their loads of 16 bytes.
struct AttentionRules {
  static constexpr DType kShort[] = {DType::bf16, DType::f16};

  std::span<const DType> dtypes = kShort;
  std::int64_t together = 8;  // elements: depths and places of rows are multiples
  std::int64_t lse_together = 4;
  std::int64_t largest_depth = 128;  // of the kernels that all architectures have
  bool takes_repeats = false;        // heads or batches that share an operand's elements
};

bool is_attention(const ir::Node& node);  // or its gradient

// Whether the operand of such a composite is read where it lies.
bool reads_attention_operand(const ir::Node& node, std::size_t operand, const lower::Strided& view,
                             const AttentionRules& rules = {});

// The region's anchor is such a composite. Empty when it is one of these, else why not.
std::string read_attention(const lower::Region& region, Attention& out, const AttentionRules& rules = {});

}  // namespace systole::patterns
