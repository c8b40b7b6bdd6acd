#pragma once

// A Frame is a function being traced on this thread. While it is the innermost one, everything recorded
// belongs to it; reading a Variable gives the value the function sees and assigning one changes only what the
// function sees. Nothing outside changes before the caller commits what the
// function did (trace.h), so a function that throws leaves no mark.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "systole/ir/graph.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::recording {

struct Cell {
  std::string name;
  bool trainable = true;
  bool frozen = false;                 // not trained for a while
  bool roams = false;                  // goes where it is needed, so it does not say where a function runs
  std::atomic<bool> compiled = false;  // a compiled function that uses it has been traced
  // Of the mark on its gradients, under the lock of gradient_marks.cpp; 0: it had none yet.
  std::uint32_t gradient_number = 0;
  Type type;
  Tensor value;
  std::weak_ptr<Cell> replaced_by;  // by nn::cast, in the module that it was part of
};
using CellRef = std::shared_ptr<Cell>;

// Writes to the innermost frame, or to the cell itself without one.
Tensor read_variable(const CellRef& cell);
// What read_variable gives, without making an input of it: undefined when no frame has read it.
Tensor known_value(const CellRef& cell);
void assign_variable(const CellRef& cell, const Tensor& value);

class Frame {
 public:
  enum class Variables {
    capture,  // a Variable is its value outside, unless bound
    bind      // the first read or assignment makes a placeholder
  };
  enum class Purpose { transform, compile };  // whether host numbers are constants

  Frame(Variables variables, Purpose purpose);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  std::uint32_t id() const { return id_; }
  std::uint32_t compile_id() const { return compile_id_; }  // the enclosing compile(fn), or 0
  bool contains(std::uint32_t trace) const;                 // this frame or one around it

  Tensor placeholder(const Type& type);
  void bind(const CellRef& cell);  // a placeholder stands for the Variable from here on

  struct Binding {
    CellRef cell;
    Tensor placeholder;  // undefined when captured
    Tensor current;
    bool assigned = false;
  };
  const std::vector<Binding>& bindings() const { return bindings_; }
  Tensor read(const CellRef& cell);
  Tensor known(const CellRef& cell);
  void assign(const CellRef& cell, const Tensor& value);

  // Switches that the function read, with what they were at first.
  using Settings = std::vector<std::pair<std::shared_ptr<SettingCell>, std::int64_t>>;
  void note(const std::shared_ptr<SettingCell>& cell);
  const Settings& settings() const { return settings_; }

  // The work of this frame behind `outputs` as a graph. Its inputs are the placeholders in order, then what
  // the function captured.
  struct Cut {
    ir::Graph graph;
    std::vector<Tensor> captures;
  };
  Cut cut(std::span<const Tensor> outputs) const;

  // Ends the trace; what was recorded in it can no longer be used. The destructor does the same.
  void leave();

 private:
  Binding* find(const CellRef& cell);

  const std::uint32_t id_;
  Frame* const parent_;
  const Variables variables_;
  const std::uint32_t compile_id_;
  bool active_ = true;
  std::vector<Tensor> placeholders_;
  std::vector<Binding> bindings_;
  Settings settings_;
  std::unordered_map<const Cell*, std::size_t> index_;
};

bool tracing();  // whether a frame is active on this thread

}  // namespace systole::recording
