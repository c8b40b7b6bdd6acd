#pragma once

// Where the simulated devices of a mesh, one thread each, meet for collectives. A meeting is complete when
// every device of the group waits at the same node. When no device runs any more and no meeting is complete,
// none ever will be: that is a typed error for all, never a hang. The first error of any device releases the
// others.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "eval/eval.h"
#include "systole/ir/graph.h"

namespace systole::runtime {

class Rendezvous {
 public:
  explicit Rendezvous(const ir::Mesh& mesh);

  // For the thread of `device`: blocks until the whole group is there; throws when that cannot happen.
  std::vector<Literal> exchange(std::int64_t device, const ir::Node& node, const ir::MeshAxisNames& axes,
                                const Literal& mine);
  void finish(std::int64_t device);
  void fail(std::exception_ptr error);  // releases every device that waits; the first error is kept

  void rethrow_error();  // when all threads have ended

  // Row-major over `axes` in the order they are named.
  std::int64_t index_in_group(std::int64_t device, const ir::MeshAxisNames& axes) const;

 private:
  struct Device {
    enum { kRunning, kWaiting, kFinished } state = kRunning;
    const ir::Node* node = nullptr;   // where it waits
    std::vector<std::int64_t> group;  // whom it waits for, itself included
    Literal mine;
    std::vector<Literal> received;
  };

  std::vector<std::int64_t> group_of(std::int64_t device, const ir::MeshAxisNames& axes) const;
  bool complete(const Device& device) const;
  void fail_if_stuck();

  const ir::Mesh mesh_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Device> devices_;
  std::exception_ptr error_;
};

// One device's end of a rendezvous.
class Member : public eval::Group {
 public:
  Member(Rendezvous& rendezvous, std::int64_t device) : rendezvous_(rendezvous), device_(device) {}
  std::vector<Literal> exchange(const ir::Node& node, const ir::MeshAxisNames& axes,
                                const Literal& mine) override {
    return rendezvous_.exchange(device_, node, axes, mine);
  }
  std::int64_t index(const ir::MeshAxisNames& axes) const override {
    return rendezvous_.index_in_group(device_, axes);
  }

 private:
  Rendezvous& rendezvous_;
  const std::int64_t device_;
};

}  // namespace systole::runtime
