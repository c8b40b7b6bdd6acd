#pragma once

// An array on a GPU.

#include <atomic>

#include "backend/cuda/memory.h"
#include "systole/runtime.h"

namespace systole::cuda {

class DeviceBuffer final : public runtime::Buffer {
 public:
  DeviceBuffer(Type type, MemoryRef memory);
  static std::shared_ptr<DeviceBuffer> make(const Device& device, const Type& type, Stream stream);

  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return name_; }
  Literal to_host() const override;

  Memory& memory() const { return *memory_; }
  bool is_donated() const { return donated_; }
  void set_donated(bool donated) { donated_ = donated; }
  // Whether a session holds it, to give it again once nobody else does.
  bool is_kept() const { return kept_; }
  void set_kept(bool kept) { kept_ = kept; }

 private:
  const Type type_;
  const DeviceName name_;
  const MemoryRef memory_;
  std::atomic<bool> donated_{false}, kept_{false};
};

runtime::BufferRef uploaded(const Literal& value, const Device& device);

// On the device; by the GPUs themselves when both buffers are theirs and they can.
runtime::BufferRef copied(const runtime::Buffer& buffer, const Device& device);

}  // namespace systole::cuda
