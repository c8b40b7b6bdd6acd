#pragma once

// A graph made ready to be evaluated many times. The plan knows which use of each value is the last, so that
// operands are handed over then and intermediate values are freed at once; which elementwise ops write over
// an operand; which broadcasts need not be made because elementwise ops read through them; and how the
// outputs that alias inputs come to stand in their memory.

#include <cstdint>
#include <map>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "eval/internal.h"
#include "systole/base/error.h"

namespace systole::eval {

class Plan {
 public:
  using Memo = std::map<const ir::Graph*, PlanRef>;  // shared sub-graphs are planned once

  explicit Plan(const ir::Graph& graph);  // the graph must outlive the plan
  Plan(const ir::Graph& graph, Memo& memo);

  // Argument types are the caller's business. An argument in `donated` (positions) whose input has an alias
  // is given back as that result in the same storage, unless someone else holds it.
  Results run(Results arguments, Group* group, std::span<const int> donated = {}) const;

 private:
  struct Step {
    const ir::Node* node;
    std::uint32_t first_use, use_count;
    std::int32_t result;       // slot of result 0
    std::int32_t reused = -1;  // operand whose storage takes the result
    bool drops = false;        // some result is read by nobody
    std::vector<PlanRef> bodies;
  };
  // An output that is to stand in the storage of an input.
  struct Home {
    std::size_t input, output;
    bool copied = false;  // the input is kept to the end and the result copied into it
  };
  friend class Planner;

  void run_step(const Step& step, std::vector<Slot>& slots, Group* group) const;
  void bring_home(std::vector<Slot>& slots, Results& results, std::span<const int> donated) const;

  const ir::Graph& graph_;
  std::int32_t slots_ = 0;
  std::vector<std::int32_t> input_slots_;
  std::vector<Use> outputs_;
  std::vector<Use> uses_;
  std::vector<Step> steps_;
  std::vector<Home> homes_;
  std::vector<char> unused_;  // by slot: read by nobody
};

// Runs f with every failure to allocate turned into kOutOfMemory naming what `where()` says.
template <class Where, class F>
void with_typed_errors(const Where& where, const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kOutOfMemory) throw e.within(where());
    throw;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw Error(ErrorKind::kOutOfMemory, std::string(where()), "no memory for a working buffer");
}

}  // namespace systole::eval
