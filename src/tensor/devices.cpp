#include "tensor/devices.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "base/lasting.h"
#include "tensor/record.h"
#include "tensor/thread_state.h"

namespace systole::recording {

namespace {

struct Table {
  std::mutex mutex;
  std::deque<runtime::ResolvedDevice> devices;
  std::atomic<int> standard{-1};  // the default device's number; -1: not yet asked for
};

Table& table() {
  static Table& instance = lasting<Table>();
  return instance;
}

std::uint8_t number_of(const runtime::ResolvedDevice& wanted) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  for (std::size_t i = 0; i < t.devices.size(); ++i)
    if (t.devices[i].name == wanted.name) return static_cast<std::uint8_t>(i);
  if (t.devices.size() >= kAnyDevice)
    throw Error(ErrorKind::kLimit, "device " + wanted.name.to_string(), "too many devices in one process");
  t.devices.push_back(wanted);
  return static_cast<std::uint8_t>(t.devices.size() - 1);
}

}  // namespace

std::uint8_t device_id(const DeviceName& name) {
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    for (std::size_t i = 0; i < t.devices.size(); ++i)
      if (t.devices[i].name == name) return static_cast<std::uint8_t>(i);
  }
  return number_of(runtime::resolve(name));
}

std::uint8_t device_id(std::string_view name) { return device_id(DeviceName::parse(name)); }

const runtime::ResolvedDevice& device(std::uint8_t id) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return t.devices[id];
}

std::uint8_t current_device_id() {
  if (const int scoped = thread_state().device; scoped >= 0) return static_cast<std::uint8_t>(scoped);
  Table& t = table();
  int id = t.standard.load(std::memory_order_acquire);
  if (id < 0) {
    id = device_id("auto");
    t.standard.store(id, std::memory_order_release);
  }
  return static_cast<std::uint8_t>(id);
}

}  // namespace systole::recording

namespace systole {

using recording::thread_state;

DeviceScope::DeviceScope(std::string_view device) : previous_(thread_state().device) {
  thread_state().device = recording::device_id(device);
}
DeviceScope::~DeviceScope() { thread_state().device = previous_; }

void set_default_device(std::string_view device) {
  recording::table().standard.store(recording::device_id(device), std::memory_order_release);
}

DeviceName current_device() { return recording::device(recording::current_device_id()).name; }

}  // namespace systole
