#include "backend/pjrt/array.h"

#include <algorithm>
#include <cstring>

#include "runtime/timeline.h"

namespace systole::pjrt {

namespace {

bool is_whole(const Placement& placement, const Type& type) { return placement.part == type; }

// Copies the part that starts at `start` out of the whole array, or back into it.
void copy_part(const Literal& whole, std::byte* part, const Ints& part_dims, const Ints& start,
               std::byte* whole_out) {
  const std::size_t rank = part_dims.size(), item = size_of(whole.dtype());
  const Ints dims = whole.dims(), strides = row_major_strides(dims);
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < rank; ++i) rows *= part_dims[i];
  const std::size_t length = rank == 0 ? item : static_cast<std::size_t>(part_dims[rank - 1]) * item;
  for (std::int64_t row = 0; row < rows && length > 0; ++row) {
    std::int64_t offset = rank == 0 ? 0 : start[rank - 1], rest = row;
    for (std::size_t i = rank; i-- > 1;) {
      offset += (start[i - 1] + rest % part_dims[i - 1]) * strides[i - 1];
      rest /= part_dims[i - 1];
    }
    const std::size_t at = static_cast<std::size_t>(offset) * item;
    std::byte* const mine = part + static_cast<std::size_t>(row) * length;
    if (whole_out != nullptr)
      std::memcpy(whole_out + at, mine, length);
    else
      std::memcpy(mine, whole.bytes() + at, length);
  }
}

std::string where(const DeviceName& device, int ordinal) {
  return DeviceName{device.backend, device.plugin, ordinal}.to_string();
}

DeviceBuffer upload_part(const Client& client, const Literal& value, const DeviceName& device, int ordinal) {
  PJRT_Device* const to = client.devices()[static_cast<std::size_t>(ordinal)].device;
  if (!timeline::is_on()) return client.upload(value, to);
  const std::string name = where(device, ordinal);
  const timeline::Copy timed(timeline::kToDevice, name, value.byte_size());
  DeviceBuffer buffer = client.upload(value, to);
  client.settle_if_timed(buffer.get());
  return buffer;
}

Literal download_part(const Client& client, PJRT_Buffer* buffer, const Type& type, const DeviceName& device,
                      int ordinal) {
  if (!timeline::is_on()) return client.download(buffer, type);
  client.settle_if_timed(buffer);
  const std::string name = where(device, ordinal);
  const timeline::Copy timed(timeline::kToHost, name, static_cast<std::size_t>(type.bytes()));
  return client.download(buffer, type);
}

}  // namespace

PlacementRef on_one_device(const Type& type, int ordinal) {
  return std::make_shared<const Placement>(
      Placement{{ordinal}, {Ints(static_cast<std::size_t>(type.shape.rank()), 0)}, type});
}

PlacementRef on_mesh(const Type& type, const ir::Mesh& mesh, const ir::Sharding* sharding, int first) {
  Placement placement;
  Ints dims = type.shape.dims();
  const std::int64_t devices = mesh.size();
  for (std::int64_t d = 0; d < devices; ++d) {
    placement.ordinals.push_back(first + static_cast<int>(d));
    placement.starts.emplace_back(dims.size(), 0);
  }
  for (std::size_t i = 0; sharding != nullptr && i < sharding->dims.size(); ++i) {
    std::int64_t parts = 1;
    for (const std::string& axis : sharding->dims[i]) parts *= mesh.axis(axis).size;
    dims[i] /= parts;  // evenly: the graph is verified
    for (std::int64_t d = 0; d < devices; ++d) {
      std::int64_t index = 0;
      for (const std::string& axis : sharding->dims[i]) {
        std::int64_t stride = 1;
        for (std::size_t a = mesh.axes.size(); a-- > 0 && mesh.axes[a].name != axis;)
          stride *= mesh.axes[a].size;
        index = index * mesh.axis(axis).size + d / stride % mesh.axis(axis).size;
      }
      placement.starts[static_cast<std::size_t>(d)][i] = index * dims[i];
    }
  }
  placement.part = {type.dtype, Shape(dims)};
  return std::make_shared<const Placement>(std::move(placement));
}

Shards::~Shards() {
  buffers.clear();  // first: the plugin may be asked what is left
  set_placement(nullptr);
}

void Shards::set_placement(const PlacementRef& placement) {
  if (placement_ == placement) return;
  if (placement_) count(-1);
  placement_ = placement;
  if (placement_) count(1);
}

void Shards::count(int times) const {
  const std::int64_t bytes = times * placement_->part.bytes();
  for (const int ordinal : placement_->ordinals) client_.memory(ordinal).add(bytes);
}

ShardsRef upload(const Client& client, const Literal& value, const PlacementRef& placement,
                 const DeviceName& device) {
  auto shards = std::make_shared<Shards>(client);
  for (std::size_t d = 0; d < placement->ordinals.size(); ++d) {
    if (is_whole(*placement, value.type())) {
      shards->buffers.push_back(upload_part(client, value, device, placement->ordinals[d]));
      continue;
    }
    Literal part = Literal::uninitialized(placement->part);
    copy_part(value, part.mutable_bytes(), part.dims(), placement->starts[d], nullptr);
    shards->buffers.push_back(upload_part(client, part, device, placement->ordinals[d]));
  }
  shards->set_placement(placement);
  return shards;
}

Literal download(const Client& client, const Shards& shards, const Type& type, const DeviceName& device) {
  const Placement& placement = *shards.placement();
  const auto from = [&](std::size_t d) {
    return download_part(client, shards.buffers[d].get(), placement.part, device, placement.ordinals[d]);
  };
  if (is_whole(placement, type)) return from(0);
  Literal whole = Literal::uninitialized(type);
  for (std::size_t d = 0; d < shards.buffers.size(); ++d) {
    const auto first = std::find(placement.starts.begin(), placement.starts.end(), placement.starts[d]);
    if (first != placement.starts.begin() + static_cast<std::ptrdiff_t>(d)) continue;  // a copy of that part
    Literal part = from(d);
    copy_part(whole, part.mutable_bytes(), part.dims(), placement.starts[d], whole.mutable_bytes());
  }
  return whole;
}

ArrayBuffer::ArrayBuffer(std::shared_ptr<const Client> client, Type type, DeviceName device, ShardsRef shards)
    : client_(std::move(client)),
      type_(std::move(type)),
      device_(std::move(device)),
      shards_(std::move(shards)) {}

Literal ArrayBuffer::to_host() const {
  const ShardsRef held = shards();
  if (!held)
    throw Error(ErrorKind::kInvalidArgument, device_.to_string(), "a buffer is used after it was donated", {},
                type_.to_string());
  return download(*client_, *held, type_, device_);
}

runtime::Placement ArrayBuffer::placement() const {
  const ShardsRef held = shards();
  if (!held) return {{device_}, type_.shape};
  runtime::Placement out;
  out.part = held->placement()->part.shape;
  for (const int ordinal : held->placement()->ordinals)
    out.devices.push_back({device_.backend, device_.plugin, ordinal});
  return out;
}

}  // namespace systole::pjrt
