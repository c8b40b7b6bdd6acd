#pragma once

// Puts the steps of a Program on streams, one after the other: to run them, or to capture them.

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cuda/module.h"
#include "backend/cuda/schedule.h"
#include "backend/walker.h"

namespace systole::cuda {

class Machine {
 public:
  using Place = Address;
  using Compiled = cuda::Compiled;
  struct Context {
    const Device& device;
    Stream stream;
    Lanes* lanes = nullptr;  // beside the stream
  };

  Machine(const Context& context, const Compiled& compiled);
  static Place moved(Place place, std::int64_t bytes) { return place + static_cast<Address>(bytes); }
  Place constant(lower::BufferId b) const;
  Place answer() const { return answer_->address(); }
  bool is_true(Place place) const;
  void copy(Place from, Place to, std::size_t bytes) const;
  void run(std::size_t step, const runtime::Walker<Machine>& walker);
  void set_turn(std::int64_t turn) { way_.set_turn(turn); }
  void begin() { way_.begin(); }
  void enter(std::size_t step);
  void leave(std::size_t step) { way_.leave(step); }
  void end() { way_.end(); }

 private:
  void evaluate(const lower::Step& step, const runtime::Walker<Machine>& walker) const;
  void launch(const Compiled::Launch& launch);
  void end_with(bool is_kernel) const {  // what was captured last
    if (stream_ != home_) lanes_->set_end(stream_, is_kernel);
  }

  const Device* device_;
  Lanes* lanes_;
  const Stream home_;
  Stream stream_;  // of the step
  const Compiled* compiled_;
  Lanewalk way_;
  std::vector<Address> addresses_;
  std::vector<void*> parameters_;
  std::shared_ptr<Memory> answer_;
};

using Executor = runtime::Walker<Machine>;

}  // namespace systole::cuda
