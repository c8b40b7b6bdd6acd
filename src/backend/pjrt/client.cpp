#include "backend/pjrt/client.h"

#include <fmt/format.h>
#include <atomic>
#include <charconv>
#include <numeric>

#include "backend/pjrt/wire.h"
#include "base/env.h"
#include "systole/runtime.h"

namespace systole::pjrt {

namespace {

// Below this the plugin copies during the call: cheaper than an event.
constexpr std::size_t kCopiedAtOnce = 64 << 10;

std::string text_of(const char* data, std::size_t size) {
  return data == nullptr ? std::string() : std::string(data, size);
}

struct ClientOption {
  std::string key, value;
};

std::vector<ClientOption> options_for(const std::string& plugin_name) {
  constexpr const char* kVariable = "SYSTOLE_PJRT_OPTIONS";
  std::vector<ClientOption> options;
  const std::string text = env::text(kVariable).value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at);
    at = end + 1;
    const std::size_t colon = entry.find(':'), equals = entry.find('=', colon + 1);
    if (colon == std::string::npos || equals == std::string::npos)
      throw Error(ErrorKind::kInvalidArgument, kVariable, "not a list of options", "NAME:key=value,…", entry);
    if (entry.substr(0, colon) == plugin_name)
      options.push_back({entry.substr(colon + 1, equals - colon - 1), entry.substr(equals + 1)});
  }
  return options;
}

template <class Number>
bool reads(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  return code == std::errc() && stop == end;
}

PJRT_NamedValue named_value(const ClientOption& option) {
  PJRT_NamedValue value{PJRT_NamedValue_STRUCT_SIZE};
  value.name = option.key.data();
  value.name_size = option.key.size();
  value.value_size = 1;
  if (option.value == "true" || option.value == "false") {
    value.type = PJRT_NamedValue_kBool;
    value.bool_value = option.value == "true";
  } else if (std::int64_t whole = 0; reads(option.value, whole)) {
    value.type = PJRT_NamedValue_kInt64;
    value.int64_value = whole;
  } else if (float number = 0; reads(option.value, number)) {
    value.type = PJRT_NamedValue_kFloat;
    value.float_value = number;
  } else {
    value.type = PJRT_NamedValue_kString;
    value.string_value = option.value.data();
    value.value_size = option.value.size();
  }
  return value;
}

std::string platform_of(const Api& api, PJRT_Client* client) {
  SYSTOLE_PJRT_ARGS(PJRT_Client_PlatformName, args);
  args.client = client;
  SYSTOLE_PJRT_CALL(api, PJRT_Client_PlatformName, args);
  return text_of(args.platform_name, args.platform_name_size);
}

std::string version_of(const Api& api, PJRT_Client* client) {
  if (!api.has(&PJRT_Api::PJRT_Client_PlatformVersion)) return {};
  SYSTOLE_PJRT_ARGS(PJRT_Client_PlatformVersion, args);
  args.client = client;
  if (PJRT_Error* const error = api.table().PJRT_Client_PlatformVersion(&args)) {
    api.discard(error);
    return {};
  }
  return text_of(args.platform_version, args.platform_version_size);
}

// Zeros where the plugin has no such figures, as on many platforms.
PJRT_Device_MemoryStats_Args memory_of(const Api& api, PJRT_Device* device) noexcept {
  SYSTOLE_PJRT_ARGS(PJRT_Device_MemoryStats, args);
  args.device = device;
  if (!api.has(&PJRT_Api::PJRT_Device_MemoryStats)) return args;
  if (PJRT_Error* const error = api.table().PJRT_Device_MemoryStats(&args)) {
    api.discard(error);
    return {};
  }
  return args;
}

Device describe(const Api& api, PJRT_Device* device) {
  SYSTOLE_PJRT_ARGS(PJRT_Device_GetDescription, args);
  args.device = device;
  SYSTOLE_PJRT_CALL(api, PJRT_Device_GetDescription, args);
  SYSTOLE_PJRT_ARGS(PJRT_DeviceDescription_Id, id);
  id.device_description = args.device_description;
  SYSTOLE_PJRT_CALL(api, PJRT_DeviceDescription_Id, id);
  SYSTOLE_PJRT_ARGS(PJRT_DeviceDescription_Kind, kind);
  kind.device_description = args.device_description;
  SYSTOLE_PJRT_CALL(api, PJRT_DeviceDescription_Kind, kind);
  const PJRT_Device_MemoryStats_Args memory = memory_of(api, device);
  return {device, id.id, text_of(kind.device_kind, kind.device_kind_size),
          memory.bytes_limit_is_set ? memory.bytes_limit : 0};
}

// What an upload in flight reads from. The copy of the Literal shares its storage, which nobody writes to
// while it is shared.
struct InFlight {
  InFlight(const Api& a, const Literal& v) : api(&a), value(v) {}
  const Api* api;
  Literal value;
  Event done;
  std::atomic<bool> handed = false;  // to the plugin, whose own order of things need not be ours
};

void finish(PJRT_Error* error, void* argument) {
  const std::unique_ptr<InFlight> upload(static_cast<InFlight*>(argument));
  (void)upload->handed.load(std::memory_order_acquire);
  upload->api->discard(error);  // the buffer carries it too
}

}  // namespace

PJRT_Buffer_Type buffer_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return PJRT_Buffer_Type_F64;
    case DType::f32: return PJRT_Buffer_Type_F32;
    case DType::f16: return PJRT_Buffer_Type_F16;
    case DType::bf16: return PJRT_Buffer_Type_BF16;
    case DType::f8e4m3fn: return PJRT_Buffer_Type_F8E4M3FN;
    case DType::f8e5m2: return PJRT_Buffer_Type_F8E5M2;
    case DType::i64: return PJRT_Buffer_Type_S64;
    case DType::i32: return PJRT_Buffer_Type_S32;
    case DType::i16: return PJRT_Buffer_Type_S16;
    case DType::i8: return PJRT_Buffer_Type_S8;
    case DType::u64: return PJRT_Buffer_Type_U64;
    case DType::u32: return PJRT_Buffer_Type_U32;
    case DType::u16: return PJRT_Buffer_Type_U16;
    case DType::u8: return PJRT_Buffer_Type_U8;
    case DType::boolean: return PJRT_Buffer_Type_PRED;
  }
  throw Error(ErrorKind::kInternal, "pjrt", "a dtype without a buffer type");
}

ClientHandle create_client(const Api& api, const std::string& plugin_name) {
  const std::vector<ClientOption> options = options_for(plugin_name);
  std::vector<PJRT_NamedValue> values;
  for (const ClientOption& option : options) values.push_back(named_value(option));
  SYSTOLE_PJRT_ARGS(PJRT_Client_Create, args);
  args.create_options = values.data();
  args.num_options = values.size();
  SYSTOLE_PJRT_CALL(api, PJRT_Client_Create, args);
  if (args.client == nullptr) throw Error(ErrorKind::kUnsupported, api.where(), "the plugin made no client");
  return {api, args.client};
}

// Field numbers of xla.CompileOptionsProto, ExecutableBuildOptionsProto and DeviceAssignmentProto.
std::string compile_options(const Layout& layout) {
  wire::Writer build;
  build.varint(4, static_cast<std::uint64_t>(layout.replicas));
  build.varint(5, static_cast<std::uint64_t>(layout.partitions));
  if (layout.spmd) build.varint(6, 1);
  if (!layout.device_ids.empty()) {
    wire::Writer assignment;
    assignment.varint(1, static_cast<std::uint64_t>(layout.replicas));
    assignment.varint(2, static_cast<std::uint64_t>(layout.partitions));
    const auto replicas = static_cast<std::size_t>(layout.replicas);
    const auto partitions = static_cast<std::size_t>(layout.partitions);
    for (std::size_t p = 0; p < partitions; ++p) {
      wire::Writer devices;
      for (std::size_t r = 0; r < replicas; ++r)
        devices.varint(1, static_cast<std::uint64_t>(layout.device_ids.at(r * partitions + p)));
      assignment.bytes(3, devices.text());
    }
    build.bytes(9, assignment.text());
  }
  if (layout.shardy) build.varint(19, 1);
  wire::Writer options;
  options.bytes(3, build.text());
  for (const auto& [name, value] : layout.flags) {  // a map: entries of key and value
    wire::Writer chosen, entry;
    if (const bool* const on = std::get_if<bool>(&value))
      chosen.varint(2, *on ? 1 : 0);
    else
      chosen.bytes(1, std::get<std::string>(value));
    entry.bytes(1, name);
    entry.bytes(2, chosen.text());
    options.bytes(7, entry.text());
  }
  return options.text();
}

Client::Client(const PluginSpec& spec)
    : plugin_(spec), client_(create_client(api(), spec.name)), platform_(platform_of(api(), client_.get())) {
  SYSTOLE_PJRT_ARGS(PJRT_Client_AddressableDevices, args);
  args.client = client_.get();
  SYSTOLE_PJRT_CALL(api(), PJRT_Client_AddressableDevices, args);
  for (std::size_t i = 0; i < args.num_addressable_devices; ++i)
    devices_.push_back(describe(api(), args.addressable_devices[i]));
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const bool is_tpu = spec.name == "tpu";  // which has a name of its own
    const DeviceName name{is_tpu ? "tpu" : "pjrt", is_tpu ? "" : spec.name, static_cast<int>(i)};
    memory_.push_back(std::make_unique<timeline::Usage>(
        name.to_string() + " memory",
        [this, device = devices_[i].device] { return memory_of(api(), device).bytes_in_use; }));
  }
  std::string maker =
      fmt::format("{}PJRT {}.{}\n{} {}\n{}", file_identity(spec.library), api().major(), api().minor(),
                  platform_, version_of(api(), client_.get()), plugin_variables());
  for (const Device& device : devices_) maker += fmt::format("{} {}\n", device.id, device.kind);
  stored_ = std::make_unique<const StoredPrograms>(api(), std::move(maker));
}

PJRT_Program as_program(const std::string& stablehlo) {
  constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{PJRT_Program_STRUCT_SIZE};
  program.code = const_cast<char*>(stablehlo.data());  // read only
  program.code_size = stablehlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

LoadedExecutable Client::compile(const std::string& stablehlo, const Layout& layout) const {
  const std::string options = compile_options(layout);
  return stored_->find_or_compile(client_.get(), stablehlo, options,
                                  [&] { return compile_now(stablehlo, options); });
}

LoadedExecutable Client::compile_now(const std::string& stablehlo, const std::string& options) const {
  PJRT_Program program = as_program(stablehlo);
  SYSTOLE_PJRT_ARGS(PJRT_Client_Compile, args);
  args.client = client_.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  SYSTOLE_PJRT_CALL(api(), PJRT_Client_Compile, args);
  if (args.executable == nullptr)
    throw Error(ErrorKind::kUnsupported, api().where(), "the plugin made no executable");
  return {api(), args.executable};
}

std::size_t Client::output_count(const LoadedExecutable& executable) const {
  SYSTOLE_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable, args);
  args.loaded_executable = executable.get();
  SYSTOLE_PJRT_CALL(api(), PJRT_LoadedExecutable_GetExecutable, args);
  const CompiledExecutable compiled(api(), args.executable);
  SYSTOLE_PJRT_ARGS(PJRT_Executable_NumOutputs, outputs);
  outputs.executable = compiled.get();
  SYSTOLE_PJRT_CALL(api(), PJRT_Executable_NumOutputs, outputs);
  return outputs.num_outputs;
}

DeviceBuffer Client::upload(const Literal& value, PJRT_Device* device) const {
  const bool at_once = value.byte_size() <= kCopiedAtOnce || !api().has(&PJRT_Api::PJRT_Event_OnReady) ||
                       !api().has(&PJRT_Api::PJRT_Event_Await);
  // Made first: nothing may be thrown while the plugin reads.
  std::unique_ptr<InFlight> held = at_once ? nullptr : std::make_unique<InFlight>(api(), value);
  const Ints dims = value.dims();
  SYSTOLE_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer, args);
  args.client = client_.get();
  args.data = value.bytes();
  args.type = buffer_type(value.dtype());
  args.dims = dims.begin();
  args.num_dims = dims.size();
  args.host_buffer_semantics = at_once ? PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
                                       : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  args.device = device;
  SYSTOLE_PJRT_CALL(api(), PJRT_Client_BufferFromHostBuffer, args);
  DeviceBuffer buffer(api(), args.buffer);
  Event done(api(), args.done_with_host_buffer);
  const auto check_made = [&] {
    if (!buffer) throw Error(ErrorKind::kUnsupported, api().where(), "the plugin made no buffer");
  };
  if (at_once || !done) {
    check_made();
    return buffer;
  }
  held->done = std::move(done);
  try {
    check_made();
    SYSTOLE_PJRT_ARGS(PJRT_Event_OnReady, ready);
    ready.event = held->done.get();
    ready.callback = finish;
    ready.user_arg = held.get();
    held->handed.store(true, std::memory_order_release);
    SYSTOLE_PJRT_CALL(api(), PJRT_Event_OnReady, ready);
  } catch (...) {
    settle(api(), held->done);  // the plugin reads the value until then
    throw;
  }
  held.release();  // finish() has it, or had it already
  return buffer;
}

Literal Client::download(PJRT_Buffer* buffer, const Type& type) const {
  Literal value = Literal::uninitialized(type);
  // Devices lay arrays out as they like; this asks for rows.
  std::vector<std::int64_t> order(static_cast<std::size_t>(value.rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  PJRT_Buffer_MemoryLayout rows{PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
  rows.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  rows.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  rows.tiled.minor_to_major = order.data();
  rows.tiled.minor_to_major_size = order.size();
  SYSTOLE_PJRT_ARGS(PJRT_Buffer_ToHostBuffer, args);
  args.src = buffer;
  args.host_layout = &rows;
  args.dst = value.mutable_bytes();
  args.dst_size = value.byte_size();
  if (value.byte_size() == 0) {  // a null dst would ask for the size
    await_ready(buffer);
    return value;
  }
  SYSTOLE_PJRT_CALL(api(), PJRT_Buffer_ToHostBuffer, args);
  const Event event(api(), args.event);
  await(api(), event, "PJRT_Buffer_ToHostBuffer");
  return value;
}

void Client::await_ready(PJRT_Buffer* buffer) const {
  SYSTOLE_PJRT_ARGS(PJRT_Buffer_ReadyEvent, args);
  args.buffer = buffer;
  SYSTOLE_PJRT_CALL(api(), PJRT_Buffer_ReadyEvent, args);
  const Event event(api(), args.event);
  await(api(), event, "PJRT_Buffer_ReadyEvent");
}

void Client::settle_if_timed(PJRT_Buffer* buffer) const noexcept {
  if (!timeline::is_on() || !api().has(&PJRT_Api::PJRT_Buffer_ReadyEvent)) return;
  SYSTOLE_PJRT_ARGS(PJRT_Buffer_ReadyEvent, args);
  args.buffer = buffer;
  if (PJRT_Error* const error = api().table().PJRT_Buffer_ReadyEvent(&args)) return api().discard(error);
  settle(api(), Event(api(), args.event));
}

}  // namespace systole::pjrt
