#include "backend/reference/rendezvous.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace systole::runtime {

namespace {

// Distance between neighbours along a mesh axis, in devices.
std::int64_t stride_of(const ir::Mesh& mesh, const std::string& axis) {
  std::int64_t stride = 1;
  for (std::size_t i = mesh.axes.size(); i-- > 0;) {
    if (mesh.axes[i].name == axis) return stride;
    stride *= mesh.axes[i].size;
  }
  throw Error(ErrorKind::kNotFound, "mesh", fmt::format("no axis named \"{}\"", axis));
}

}  // namespace

Rendezvous::Rendezvous(const ir::Mesh& mesh) : mesh_(mesh), devices_(static_cast<std::size_t>(mesh.size())) {}

std::int64_t Rendezvous::index_in_group(std::int64_t device, const ir::MeshAxisNames& axes) const {
  std::int64_t index = 0;
  for (const std::string& axis : axes) {
    const std::int64_t size = mesh_.axis(axis).size;
    index = index * size + device / stride_of(mesh_, axis) % size;
  }
  return index;
}

std::vector<std::int64_t> Rendezvous::group_of(std::int64_t device, const ir::MeshAxisNames& axes) const {
  std::vector<std::int64_t> group{device};
  for (const std::string& axis : axes) {
    const std::int64_t size = mesh_.axis(axis).size, stride = stride_of(mesh_, axis);
    std::vector<std::int64_t> grown;
    for (std::int64_t member : group)
      for (std::int64_t i = 0; i < size; ++i) grown.push_back(member + (i - member / stride % size) * stride);
    group = std::move(grown);
  }
  return group;
}

bool Rendezvous::complete(const Device& device) const {
  return std::all_of(device.group.begin(), device.group.end(), [&](std::int64_t member) {
    const Device& other = devices_[static_cast<std::size_t>(member)];
    return other.state == Device::kWaiting && other.node == device.node;
  });
}

std::vector<Literal> Rendezvous::exchange(std::int64_t device, const ir::Node& node,
                                          const ir::MeshAxisNames& axes, const Literal& mine) {
  // A copy, so that no storage is ever shared between threads that may write to it.
  Literal sent = Literal::copy_of(mine.type(), mine.as_bytes());
  std::vector<std::int64_t> group = group_of(device, axes);
  std::unique_lock lock(mutex_);
  Device& self = devices_[static_cast<std::size_t>(device)];
  self.state = Device::kWaiting;
  self.node = &node;
  self.group = std::move(group);
  self.mine = std::move(sent);
  if (complete(self)) {
    std::vector<Literal> all;
    for (std::int64_t member : self.group) all.push_back(devices_[static_cast<std::size_t>(member)].mine);
    for (std::int64_t member : self.group) {
      Device& other = devices_[static_cast<std::size_t>(member)];
      other.received = all;
      other.mine = Literal();
      other.state = Device::kRunning;
    }
    changed_.notify_all();
  } else {
    fail_if_stuck();
    changed_.wait(lock, [&] { return self.state == Device::kRunning || error_ != nullptr; });
    if (self.state != Device::kRunning) {
      self.state = Device::kFinished;
      throw Error(ErrorKind::kInvalidArgument, std::string(name(node.op)),
                  "another device of the mesh failed");
    }
  }
  return std::exchange(self.received, {});
}

void Rendezvous::finish(std::int64_t device) {
  std::lock_guard lock(mutex_);
  devices_[static_cast<std::size_t>(device)].state = Device::kFinished;
  fail_if_stuck();
}

void Rendezvous::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
  changed_.notify_all();
}

void Rendezvous::rethrow_error() {
  if (error_ != nullptr) std::rethrow_exception(error_);
}

// Called with the lock held after a device stopped running.
void Rendezvous::fail_if_stuck() {
  const auto in = [&](auto state) {
    return std::find_if(devices_.begin(), devices_.end(), [&](const Device& d) { return d.state == state; });
  };
  const auto stuck = in(Device::kWaiting);
  if (error_ != nullptr || in(Device::kRunning) != devices_.end() || stuck == devices_.end()) return;
  std::string got;
  for (std::int64_t member : stuck->group) {
    const Device& other = devices_[static_cast<std::size_t>(member)];
    if (other.state == Device::kFinished)
      got += fmt::format("{}device {} at its end", got.empty() ? "" : ", ", member);
    else
      got += fmt::format("{}device {} at {}{}", got.empty() ? "" : ", ", member,
                         other.node == stuck->node ? "" : "another ", name(other.node->op));
  }
  error_ = std::make_exception_ptr(Error(ErrorKind::kInvalidArgument, std::string(name(stuck->node->op)),
                                         "the devices of a group do not meet at the same collective",
                                         "every device of the group at this node", got));
  changed_.notify_all();
}

}  // namespace systole::runtime
