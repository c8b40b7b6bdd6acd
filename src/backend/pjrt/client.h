#pragma once

// A client of a plugin: its devices, compiled programs, and values moved there and back. One client per
// plugin and process (a TPU has room for one), shared by everything that uses the plugin.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/pjrt/plugin.h"
#include "backend/pjrt/stored.h"
#include "runtime/timeline.h"
#include "systole/base/literal.h"

namespace systole::pjrt {

// With the options that SYSTOLE_PJRT_OPTIONS has for the plugin: "NAME:key=value,…", e.g.
// "cpu:cpu_device_count=8,cuda:preallocate=false". Whole numbers, true and false, other numbers and text are
// passed as such.
ClientHandle create_client(const Api& api, const std::string& plugin_name);

struct Device {
  PJRT_Device* device;
  int id;                     // the plugin's number
  std::string kind;           // "TPU v5e", "cpu"
  std::int64_t memory_bytes;  // 0: unknown
};

// How a program is laid out over devices.
struct Layout {
  std::vector<int> device_ids;  // one per replica or partition; empty: the plugin chooses
  std::int64_t replicas = 1, partitions = 1;
  bool spmd = false;    // one program in global shapes, split by its shardings
  bool shardy = false;  // … which are Shardy's, not GSPMD's
  std::vector<std::pair<std::string, std::variant<bool, std::string>>> flags;  // of XLA, by name
};
std::string compile_options(const Layout& layout);  // a CompileOptionsProto

PJRT_Buffer_Type buffer_type(DType dtype);
PJRT_Program as_program(const std::string& stablehlo);  // reads the text, which must live as long

class Client {
 public:
  explicit Client(const PluginSpec& spec);  // loads the plugin; probe it first

  const Plugin& plugin() const { return plugin_; }
  const Api& api() const { return plugin_.api(); }
  const std::string& platform() const { return platform_; }
  std::span<const Device> devices() const { return devices_; }  // those this process can use
  // Of arrays here; a timeline has what the plugin tells instead, where it does.
  timeline::Usage& memory(int ordinal) const { return *memory_[static_cast<std::size_t>(ordinal)]; }

  // Or takes what an earlier process compiled from the disk.
  LoadedExecutable compile(const std::string& stablehlo, const Layout& layout) const;
  std::size_t output_count(const LoadedExecutable& executable) const;
  // Starts the transfer; the value is kept until the plugin has read it.
  DeviceBuffer upload(const Literal& value, PJRT_Device* device) const;
  Literal download(PJRT_Buffer* buffer, const Type& type) const;  // row-major; waits
  void await_ready(PJRT_Buffer* buffer) const;                    // throws what its making failed with
  // Under a timeline waits until the buffer is there, or has failed: spans are of work, not of its beginning.
  void settle_if_timed(PJRT_Buffer* buffer) const noexcept;
  std::mutex& launching() const { return launching_; }  // held while a program of several devices starts

 private:
  LoadedExecutable compile_now(const std::string& stablehlo, const std::string& options) const;

  Plugin plugin_;
  ClientHandle client_;
  std::string platform_;
  std::vector<Device> devices_;
  std::vector<std::unique_ptr<timeline::Usage>> memory_;  // by device
  std::unique_ptr<const StoredPrograms> stored_;
  mutable std::mutex launching_;
};

}  // namespace systole::pjrt
