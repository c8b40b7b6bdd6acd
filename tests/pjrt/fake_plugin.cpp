// A PJRT plugin that computes nothing: a program is the number of its outputs (a module has one), and output
// i is a copy of argument i. SYSTOLE_FAKE chooses how it misbehaves, one shared object each; fake_fault()
// makes one that works fail for a while. Every object it hands out is counted, so that a test can see what
// was not given back.

#include <pjrt_c_api.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#define FAKE_none 0
#define FAKE_no_symbol 1
#define FAKE_null_api 2
#define FAKE_other_major 3
#define FAKE_older 4
#define FAKE_newer 5
#define FAKE_tiny_table 6
#define FAKE_no_error_functions 7
#define FAKE_no_execute 8
#define FAKE_load_crash 9
#define FAKE_init_error 10
#define FAKE_init_crash 11
#define FAKE_init_hang 12
#define FAKE_init_exit 13
#define FAKE_client_error 14
#define FAKE_client_abort 15
#define FAKE_no_devices 16

#define FAKE_NUMBER(name) FAKE_NUMBER_OF(name)
#define FAKE_NUMBER_OF(name) FAKE_##name
constexpr int kVariant = FAKE_NUMBER(SYSTOLE_FAKE);

namespace {

std::atomic<int> live{0}, abandoned{0};
std::string fault;  // set by a test between its calls

struct Counted {
  Counted() { ++live; }
  Counted(const Counted& other) = delete;
  ~Counted() { --live; }
};

}  // namespace

struct PJRT_Error : Counted {
  PJRT_Error(PJRT_Error_Code c, std::string m) : code(c), message(std::move(m)) {}
  PJRT_Error_Code code;
  std::string message;
};
struct PJRT_Event : Counted {
  ~PJRT_Event() { abandoned += source != nullptr ? 1 : 0; }
  std::string failure;
  bool is_slow = false;          // to come true
  const char* source = nullptr;  // what a transfer reads when it is waited for
  struct PJRT_Buffer* target = nullptr;
};
struct PJRT_DeviceDescription {
  int id;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
};
struct PJRT_Client : Counted {
  PJRT_Device devices[2] = {{{0}}, {{1}}};
  PJRT_Device* list[2] = {&devices[0], &devices[1]};
};
struct PJRT_Buffer : Counted {
  std::vector<char> bytes;
  bool deleted = false;
  std::string failure;
};
struct PJRT_Executable : Counted {
  explicit PJRT_Executable(std::size_t n) : outputs(n) {}
  std::size_t outputs;
};
struct PJRT_LoadedExecutable : Counted {
  std::size_t outputs = 0;
  std::string text;
};

namespace {

PJRT_Error* fail(PJRT_Error_Code code, const char* message) { return new PJRT_Error(code, message); }

std::size_t item_size(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_S64: return 8;
    case PJRT_Buffer_Type_F32:
    case PJRT_Buffer_Type_S32: return 4;
    default: return 1;
  }
}

void destroy_error(PJRT_Error_Destroy_Args* args) { delete args->error; }
void message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}
PJRT_Error* code(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

PJRT_Error* initialize(PJRT_Plugin_Initialize_Args*) {
  switch (kVariant) {
    case FAKE_init_error: return fail(PJRT_Error_Code_UNAVAILABLE, "the driver sleeps\n");
    case FAKE_init_crash: *static_cast<volatile int*>(nullptr) = 1; break;
    case FAKE_init_hang:
      for (;;) ::sleep(1);
    case FAKE_init_exit: std::exit(0);
    default: break;
  }
  return nullptr;
}

// A newer plugin's elements have a field more.
struct LongValue {
  PJRT_NamedValue value;
  char more[24];
};

PJRT_Error* attributes(PJRT_Plugin_Attributes_Args* args) {
  static const std::int64_t version[] = {1, 9, 5}, future[] = {99, 1, 0};
  static LongValue values[2] = {};
  for (LongValue& each : values)
    each.value.struct_size =
        kVariant == FAKE_newer ? sizeof(LongValue) : std::size_t{PJRT_NamedValue_STRUCT_SIZE};
  auto* const second = reinterpret_cast<PJRT_NamedValue*>(
      reinterpret_cast<char*>(values) +
      (kVariant == FAKE_newer ? sizeof(LongValue) : sizeof(PJRT_NamedValue)));
  second->struct_size = values[0].value.struct_size;
  values[0].value.name = "stablehlo_current_version";
  values[0].value.name_size = 25;
  values[0].value.type = PJRT_NamedValue_kInt64List;
  values[0].value.int64_array_value = version;
  values[0].value.value_size = 3;
  second->name = "maker";
  second->name_size = 5;
  second->type = PJRT_NamedValue_kString;
  second->string_value = "nobody";
  second->value_size = 6;
  args->attributes = &values[0].value;
  args->num_attributes = 2;
  if (fault == "new StableHLO") {
    second->name = "stablehlo_minimum_version";
    second->name_size = 25;
    second->type = PJRT_NamedValue_kInt64List;
    second->int64_array_value = future;
    second->value_size = 3;
  }
  return nullptr;
}

PJRT_Error* destroy_event(PJRT_Event_Destroy_Args* args) {
  delete args->event;
  return nullptr;
}
PJRT_Error* await(PJRT_Event_Await_Args* args) {
  if (args->event->is_slow) ::usleep(50'000);
  if (args->event->source != nullptr) {
    std::vector<char>& bytes = args->event->target->bytes;
    std::memcpy(bytes.data(), args->event->source, bytes.size());
    args->event->source = nullptr;
    return fail(PJRT_Error_Code_DATA_LOSS, "the transfer failed");
  }
  if (args->event->failure.empty()) return nullptr;
  return new PJRT_Error(PJRT_Error_Code_DATA_LOSS, args->event->failure);
}
PJRT_Error* on_ready(PJRT_Event_OnReady_Args* args) {
  if (fault == "on_ready") return fail(PJRT_Error_Code_INTERNAL, "no callbacks today");
  args->callback(nullptr, args->user_arg);
  return nullptr;
}

PJRT_Error* create_client(PJRT_Client_Create_Args* args) {
  if (kVariant == FAKE_client_error) return fail(PJRT_Error_Code_NOT_FOUND, "no such accelerator");
  if (kVariant == FAKE_client_abort) std::abort();
  for (std::size_t i = 0; i < args->num_options; ++i)
    if (std::string_view(args->create_options[i].name, args->create_options[i].name_size) == "refuse")
      return fail(PJRT_Error_Code_INVALID_ARGUMENT, "asked to refuse");
  args->client = new PJRT_Client;
  return nullptr;
}
PJRT_Error* destroy_client(PJRT_Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}
PJRT_Error* platform(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "fake";
  args->platform_name_size = 4;
  return nullptr;
}
PJRT_Error* devices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = args->client->list;
  args->num_addressable_devices = kVariant == FAKE_no_devices ? 0 : 2;
  return nullptr;
}
PJRT_Error* description(PJRT_Device_GetDescription_Args* args) {
  args->device_description = &args->device->description;
  return nullptr;
}
PJRT_Error* device_id(PJRT_DeviceDescription_Id_Args* args) {
  args->id = args->device_description->id;
  return nullptr;
}
PJRT_Error* device_kind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "imaginary";
  args->device_kind_size = 9;
  return nullptr;
}
PJRT_Error* memory_stats(PJRT_Device_MemoryStats_Args* args) {
  args->bytes_limit = 4096;
  args->bytes_limit_is_set = true;
  if (fault == "tells its memory") args->bytes_in_use = 12345;
  return nullptr;
}

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  const std::string text(args->program->code, args->program->code_size);
  if (std::string_view(args->program->format, args->program->format_size) != "mlir")
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "not mlir");
  if (text == "too big") return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, "16 GB do not fit");
  if (fault == "Shardy" && text.find("sdy.") != text.npos)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "dialect sdy is not known");
  if (fault == "all programs")
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, text.find("sdy.") != text.npos ? "no sdy" : "no gspmd");
  if (text == "strange") return fail(PJRT_Error_Code_UNIMPLEMENTED, "op is not known");
  auto* const executable = new PJRT_LoadedExecutable;
  executable->outputs =
      std::isdigit(static_cast<unsigned char>(text[0])) != 0 ? std::strtoul(text.c_str(), nullptr, 10) : 1;
  executable->text = text;
  args->executable = executable;
  return nullptr;
}
PJRT_Error* destroy_loaded(PJRT_LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}
PJRT_Error* executable_of(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  args->executable = new PJRT_Executable(args->loaded_executable->outputs);
  return nullptr;
}
PJRT_Error* destroy_executable(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}
PJRT_Error* output_count(PJRT_Executable_NumOutputs_Args* args) {
  args->num_outputs = args->executable->outputs;
  return nullptr;
}

PJRT_Error* upload(PJRT_Client_BufferFromHostBuffer_Args* args) {
  std::size_t size = item_size(args->type);
  for (std::size_t i = 0; i < args->num_dims; ++i) size *= static_cast<std::size_t>(args->dims[i]);
  if (size > 1 << 20) return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, "out of imaginary memory");
  if (fault == "upload to 1" && args->device->description.id == 1)
    return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, "device 1 is full");
  const char* const data = static_cast<const char*>(args->data);
  args->buffer = new PJRT_Buffer;
  args->buffer->bytes.assign(data, data + size);
  args->done_with_host_buffer = new PJRT_Event;
  if (fault == "on_ready" &&
      args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes) {
    args->done_with_host_buffer->source = data;
    args->done_with_host_buffer->target = args->buffer;
  }
  return nullptr;
}
PJRT_Error* destroy_buffer(PJRT_Buffer_Destroy_Args* args) {
  delete args->buffer;
  return nullptr;
}
PJRT_Error* download(PJRT_Buffer_ToHostBuffer_Args* args) {
  if (args->src->deleted) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the buffer was deleted");
  if (args->dst_size < args->src->bytes.size()) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "too small");
  std::memcpy(args->dst, args->src->bytes.data(), args->src->bytes.size());
  args->event = new PJRT_Event;
  args->event->failure = args->src->failure;
  return nullptr;
}
PJRT_Error* ready_event(PJRT_Buffer_ReadyEvent_Args* args) {
  args->event = new PJRT_Event;
  args->event->failure = args->buffer->failure;
  return nullptr;
}

// Takes the memory of every argument that it may.
PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  const std::string& text = args->executable->text;
  if (text.find("fails") != std::string::npos) return fail(PJRT_Error_Code_INTERNAL, "the chip is on fire");
  for (std::size_t d = 0; d < args->num_devices; ++d) {
    for (std::size_t i = 0; i < args->num_args; ++i)
      if (args->argument_lists[d][i]->deleted)
        return fail(PJRT_Error_Code_INVALID_ARGUMENT, "an argument was deleted");
    for (std::size_t o = 0; o < args->executable->outputs; ++o) {
      auto* const buffer = new PJRT_Buffer;
      if (o < args->num_args) buffer->bytes = args->argument_lists[d][o]->bytes;
      if (text.find("late") != std::string::npos) buffer->failure = "the chip went away";
      args->output_lists[d][o] = buffer;
    }
    if (args->device_complete_events != nullptr) {
      auto* const done = args->device_complete_events[d] = new PJRT_Event;
      done->is_slow = text.find("slow") != std::string::npos;
      if (text.find("late") != std::string::npos) done->failure = "the chip went away";
    }
    for (std::size_t i = 0; i < args->num_args; ++i) {
      bool kept = false;
      for (std::size_t k = 0; k < args->options->num_non_donatable_input_indices; ++k)
        kept |= args->options->non_donatable_input_indices[k] == static_cast<std::int64_t>(i);
      args->argument_lists[d][i]->deleted |= !kept;
    }
  }
  return nullptr;
}

struct LongerTable {
  PJRT_Api table;
  void* more[8];
};

PJRT_Api make_table() {
  PJRT_Api t{};
  t.struct_size = PJRT_Api_STRUCT_SIZE;
  t.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
  t.PJRT_Error_Destroy = destroy_error;
  t.PJRT_Error_Message = message;
  t.PJRT_Error_GetCode = code;
  t.PJRT_Plugin_Initialize = initialize;
  t.PJRT_Plugin_Attributes = attributes;
  t.PJRT_Event_Destroy = destroy_event;
  t.PJRT_Event_Await = await;
  t.PJRT_Event_OnReady = on_ready;
  t.PJRT_Client_Create = create_client;
  t.PJRT_Client_Destroy = destroy_client;
  t.PJRT_Client_PlatformName = platform;
  t.PJRT_Client_AddressableDevices = devices;
  t.PJRT_Device_GetDescription = description;
  t.PJRT_DeviceDescription_Id = device_id;
  t.PJRT_DeviceDescription_Kind = device_kind;
  t.PJRT_Device_MemoryStats = memory_stats;
  t.PJRT_Client_Compile = compile;
  t.PJRT_LoadedExecutable_Destroy = destroy_loaded;
  t.PJRT_LoadedExecutable_GetExecutable = executable_of;
  t.PJRT_Executable_Destroy = destroy_executable;
  t.PJRT_Executable_NumOutputs = output_count;
  t.PJRT_Client_BufferFromHostBuffer = upload;
  t.PJRT_Buffer_Destroy = destroy_buffer;
  t.PJRT_Buffer_ToHostBuffer = download;
  t.PJRT_Buffer_ReadyEvent = ready_event;
  t.PJRT_LoadedExecutable_Execute = execute;
  switch (kVariant) {
    case FAKE_other_major: t.pjrt_api_version.major_version = PJRT_API_MAJOR + 1; break;
    case FAKE_older:
      t.pjrt_api_version.minor_version = PJRT_API_MINOR - 40;
      t.struct_size = offsetof(PJRT_Api, PJRT_Buffer_UnsafePointer);
      break;
    case FAKE_newer:
      t.pjrt_api_version.minor_version = PJRT_API_MINOR + 100;
      t.struct_size = sizeof(LongerTable);
      break;
    case FAKE_tiny_table: t.struct_size = sizeof(std::size_t); break;
    case FAKE_no_error_functions: t.struct_size = offsetof(PJRT_Api, PJRT_Error_Message); break;
    case FAKE_no_execute: t.struct_size = offsetof(PJRT_Api, PJRT_LoadedExecutable_Execute); break;
    default: break;
  }
  return t;
}

// What lies beyond a short table must not be read: it is poison.
[[maybe_unused]] const PJRT_Api* shipped_table() {
  static LongerTable table;
  static const bool made = [] {
    const PJRT_Api full = make_table();
    std::memset(static_cast<void*>(&table), 0x5a, sizeof(table));
    std::memcpy(static_cast<void*>(&table), &full,
                full.struct_size < sizeof(full) ? full.struct_size : sizeof(full));
    return true;
  }();
  (void)made;
  return &table.table;
}

#if FAKE_NUMBER(SYSTOLE_FAKE) == FAKE_load_crash
const bool crashed = [] {
  std::abort();
  return true;
}();
#endif

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT int fake_live_objects() { return live; }
FAKE_EXPORT int fake_abandoned_transfers() { return abandoned; }
FAKE_EXPORT void fake_fault(const char* name) { fault = name; }

#if FAKE_NUMBER(SYSTOLE_FAKE) != FAKE_no_symbol
FAKE_EXPORT const PJRT_Api* GetPjrtApi() { return kVariant == FAKE_null_api ? nullptr : shipped_table(); }
#endif
