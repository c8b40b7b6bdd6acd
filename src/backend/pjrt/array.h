#pragma once

// An array on one or more devices of a client. A graph with shardings means the same as without them, so its
// arguments and results are single Buffers whose value lies in shards; nothing above the backend sees that.

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backend/pjrt/client.h"
#include "systole/ir/graph.h"
#include "systole/runtime.h"

namespace systole::pjrt {

// Which part of an array each device has.
struct Placement {
  std::vector<int> ordinals;
  std::vector<Ints> starts;  // by device, the first index of its part
  Type part;                 // the same for all
  bool operator==(const Placement&) const = default;
};
using PlacementRef = std::shared_ptr<const Placement>;

PlacementRef on_one_device(const Type& type, int ordinal);
// On the devices of the mesh, from `first` on: split as the sharding says, whole on each without one.
PlacementRef on_mesh(const Type& type, const ir::Mesh& mesh, const ir::Sharding* sharding, int first);

// The buffers of an array, whose bytes count as the client's memory once they have a placement.
class Shards {
 public:
  explicit Shards(const Client& client) : client_(client) {}
  ~Shards();
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;
  const PlacementRef& placement() const { return placement_; }
  void set_placement(const PlacementRef& placement);

  std::vector<DeviceBuffer> buffers;

 private:
  void count(int times) const;

  const Client& client_;
  PlacementRef placement_;
};
using ShardsRef = std::shared_ptr<Shards>;  // changed by a sole holder only

// `device` is one of the client's: its backend's name is that of all of them.
ShardsRef upload(const Client& client, const Literal& value, const PlacementRef& placement,
                 const DeviceName& device);
Literal download(const Client& client, const Shards& shards, const Type& type, const DeviceName& device);

class ArrayBuffer final : public runtime::Buffer {
 public:
  ArrayBuffer(std::shared_ptr<const Client> client, Type type, DeviceName device, ShardsRef shards);
  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return device_; }
  Literal to_host() const override;
  runtime::Placement placement() const override;

  const Client& client() const { return *client_; }
  ShardsRef shards() const {  // null once donated
    const std::lock_guard lock(lock_);
    return shards_;
  }
  ShardsRef take() {  // leaves null
    const std::lock_guard lock(lock_);
    return std::move(shards_);
  }
  void set(ShardsRef shards) {
    const std::lock_guard lock(lock_);
    shards_.swap(shards);
  }

 private:
  // Held for the move of a pointer; a run takes two per argument, so it must cost next to nothing.
  class SpinLock {
   public:
    void lock() {
      while (taken_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() { taken_.clear(std::memory_order_release); }

   private:
    std::atomic_flag taken_;
  };

  const std::shared_ptr<const Client> client_;
  const Type type_;
  const DeviceName device_;
  mutable SpinLock lock_;
  ShardsRef shards_;
};

}  // namespace systole::pjrt
