#pragma once

// What the kinds of kernels share.

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/elements.h"
#include "codegen/kernel.h"
#include "codegen/writer.h"

namespace systole::codegen {

Kernel map_kernel(const lower::Step& step, const std::string& name);
Kernel rows_kernel(const lower::Step& step, const std::string& name);
Kernel dot_kernel(const lower::Step& step, const std::string& name);
std::optional<Kernel> special_kernel(const lower::Step& step, const std::string& name);
Kernel convolution_kernel(const lower::Step& step, const std::string& name);

// A kernel function in C under construction: its head declares the buffers as typed arrays.
class Function {
 public:
  Function(const ir::Graph& region, std::string name);

  Writer& writer() { return writer_; }
  Elements& elements() { return elements_; }
  const std::string& output(std::size_t i) const { return outputs_[i]; }
  // Computes the outputs at these indices, then stores them: an output may lie where an input does.
  void store(const std::vector<std::size_t>& outputs, const std::vector<Index>& linear);
  Kernel finish(std::int64_t items);

 private:
  const ir::Graph& region_;
  Writer writer_;
  std::vector<std::string> inputs_, outputs_;
  Elements elements_;
  Kernel kernel_;
};

// Loop variables with their sizes, outermost first, and the linear index of the point they stand for.
struct Loops {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  Index point() const;
};
Loops make_loops(std::vector<std::int64_t> sizes, std::string_view stem);

// Declares the loops' variables from the number of an item.
void open_item(Writer& writer, const Loops& loops, const std::string& item);

std::string identity(ir::Combine kind, DType dtype);
std::string combined(ir::Combine kind, DType dtype, const std::string& a, const std::string& b);

// The sizes of loops over `count` points in which all indices of the graph's values are simple, as far as
// possible.
std::vector<std::int64_t> loop_sizes(const ir::Graph& graph, std::vector<std::int64_t> sizes);

}  // namespace systole::codegen
