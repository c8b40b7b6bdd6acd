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
std::vector<Kernel> cut_rows_kernels(const lower::Step& step, const std::string& name);
Kernel contraction_kernel(const lower::Step& step, const std::string& name);
std::optional<Kernel> special_kernel(const lower::Step& step, const std::string& name, Dialect dialect);

inline constexpr int kThreads = 256;  // of a group, where nothing speaks for another number

// A kernel function under construction: its head declares the buffers as typed arrays. Items that are written
//   for (s_i64 item = begin; item < end; item += S_STEP)
// are the threads' in the dialects that have threads. Indices may be declared as s_index, which becomes the
// narrowest type that is wide enough.
class Function {
 public:
  Function(const lower::Step& step, std::string name, Dialect dialect = Dialect::c, int threads = kThreads);

  Writer& writer() { return writer_; }
  Elements& elements() { return elements_; }
  const std::string& output(std::size_t i) const { return outputs_[i]; }
  // The step's workspace as an array: the buffer after the outputs.
  std::string scratch(std::string_view type);
  // Computes the outputs at these indices, then stores them: an output may lie where an input does.
  // `place` is the same index in another form.
  void store(const std::vector<std::size_t>& outputs, const std::vector<Index>& linear,
             const std::string& place = {});
  Kernel finish(std::int64_t items);
  Kernel finish_groups(std::int64_t groups);  // of threads that know their work by their numbers
  void set_threads(int threads) { kernel_.threads = threads; }
  // That many groups at a time have registers where they run.
  void set_resident(int groups) { resident_ = groups; }
  void set_most_groups(std::int64_t groups) { most_groups_ = groups; }  // of threads that take items in turn
  void declare(std::string line);  // at the head of the function: arrays that a group shares

 private:
  void declare_buffer(std::string_view type, const std::string& array, bool is_written);
  bool narrow() const;  // whether indices need no more than 32 bits
  Kernel closed();

  const ir::Graph& region_;
  const Dialect dialect_;
  Writer writer_{1};
  std::vector<std::string> inputs_, outputs_;
  Elements elements_;
  Kernel kernel_;
  std::string declared_;                 // lines at its head
  std::vector<std::string> parameters_;  // by buffer
  int resident_ = 1;
  std::int64_t most_groups_ = 1024;
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
