#include "backend/pjrt/api.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>

namespace systole::pjrt {

namespace {

constexpr std::size_t kLongestMessage = 4000;  // compilers put whole programs into theirs

std::string_view code_name(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_OK: return "OK";
    case PJRT_Error_Code_CANCELLED: return "CANCELLED";
    case PJRT_Error_Code_UNKNOWN: return "UNKNOWN";
    case PJRT_Error_Code_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case PJRT_Error_Code_DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case PJRT_Error_Code_NOT_FOUND: return "NOT_FOUND";
    case PJRT_Error_Code_ALREADY_EXISTS: return "ALREADY_EXISTS";
    case PJRT_Error_Code_PERMISSION_DENIED: return "PERMISSION_DENIED";
    case PJRT_Error_Code_RESOURCE_EXHAUSTED: return "RESOURCE_EXHAUSTED";
    case PJRT_Error_Code_FAILED_PRECONDITION: return "FAILED_PRECONDITION";
    case PJRT_Error_Code_ABORTED: return "ABORTED";
    case PJRT_Error_Code_OUT_OF_RANGE: return "OUT_OF_RANGE";
    case PJRT_Error_Code_UNIMPLEMENTED: return "UNIMPLEMENTED";
    case PJRT_Error_Code_INTERNAL: return "INTERNAL";
    case PJRT_Error_Code_UNAVAILABLE: return "UNAVAILABLE";
    case PJRT_Error_Code_DATA_LOSS: return "DATA_LOSS";
    case PJRT_Error_Code_UNAUTHENTICATED: return "UNAUTHENTICATED";
  }
  return "an unknown code";
}

}  // namespace

// A plugin's internal error is not a bug of this library, so it is kUnsupported: valid, but not done here.
ErrorKind kind_of(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_INVALID_ARGUMENT:
    case PJRT_Error_Code_FAILED_PRECONDITION:
    case PJRT_Error_Code_ALREADY_EXISTS:
    case PJRT_Error_Code_OUT_OF_RANGE: return ErrorKind::kInvalidArgument;
    case PJRT_Error_Code_NOT_FOUND: return ErrorKind::kNotFound;
    case PJRT_Error_Code_RESOURCE_EXHAUSTED: return ErrorKind::kOutOfMemory;
    case PJRT_Error_Code_DEADLINE_EXCEEDED:
    case PJRT_Error_Code_PERMISSION_DENIED:
    case PJRT_Error_Code_UNAVAILABLE:
    case PJRT_Error_Code_UNAUTHENTICATED: return ErrorKind::kIo;
    case PJRT_Error_Code_DATA_LOSS: return ErrorKind::kContextLost;
    case PJRT_Error_Code_OK:
    case PJRT_Error_Code_CANCELLED:
    case PJRT_Error_Code_UNKNOWN:
    case PJRT_Error_Code_ABORTED:
    case PJRT_Error_Code_UNIMPLEMENTED:
    case PJRT_Error_Code_INTERNAL: return ErrorKind::kUnsupported;
  }
  return ErrorKind::kUnsupported;
}

Api::Api(const PJRT_Api* table, std::string where) : where_(std::move(where)) {
  if (table == nullptr) throw Error(ErrorKind::kUnsupported, where_, "GetPjrtApi of the plugin gave nothing");
  // Everything up to the version has been in its place in all versions.
  constexpr std::size_t kHead = offsetof(PJRT_Api, PJRT_Error_Destroy);
  if (table->struct_size < kHead)
    throw Error(ErrorKind::kUnsupported, where_, "the plugin's function table is too short to hold a version",
                fmt::format("{} bytes or more", kHead), std::to_string(table->struct_size));
  std::memcpy(&table_, table, std::min(table->struct_size, sizeof(table_)));
  if (major() != PJRT_API_MAJOR)
    throw Error(ErrorKind::kUnsupported, where_, "the plugin's PJRT version does not fit this build",
                fmt::format("{}.x", PJRT_API_MAJOR), fmt::format("{}.{}", major(), minor()));
  if (table_.PJRT_Error_Destroy == nullptr || table_.PJRT_Error_Message == nullptr ||
      table_.PJRT_Error_GetCode == nullptr)
    throw Error(
        ErrorKind::kUnsupported, where_,
        fmt::format("the plugin (PJRT {}.{}) has no functions to report errors with", major(), minor()));
}

PJRT_Error_Code Api::code_of(PJRT_Error* error) const {
  SYSTOLE_PJRT_ARGS(PJRT_Error_GetCode, args);
  args.error = error;
  args.code = PJRT_Error_Code_UNKNOWN;
  PJRT_Error* const second = table_.PJRT_Error_GetCode(&args);
  if (second != error) discard(second);
  return args.code;
}

Error Api::to_error(PJRT_Error* error, std::string_view doing) const {
  SYSTOLE_PJRT_ARGS(PJRT_Error_Message, text);
  text.error = error;
  table_.PJRT_Error_Message(&text);
  const PJRT_Error_Code code = code_of(error);
  std::string message;
  if (text.message != nullptr) message.assign(text.message, std::min(text.message_size, kLongestMessage));
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  discard(error);
  return Error(kind_of(code), where_,
               fmt::format("{} ({} in {})", message.empty() ? "the plugin gave no message" : message,
                           code_name(code), doing));
}

void Api::discard(PJRT_Error* error) const noexcept {
  if (error == nullptr) return;
  SYSTOLE_PJRT_ARGS(PJRT_Error_Destroy, args);
  args.error = error;
  table_.PJRT_Error_Destroy(&args);
}

void Api::fail_absent(std::string_view name) const {
  throw Error(ErrorKind::kUnsupported, where_,
              fmt::format("the plugin (PJRT {}.{}) has no {}", major(), minor(), name));
}

void await(const Api& api, const Event& event, std::string_view doing) {
  if (!event) return;
  if (!api.has(&PJRT_Api::PJRT_Event_Await))
    throw Error(ErrorKind::kUnsupported, api.where(), "the plugin has no PJRT_Event_Await");
  SYSTOLE_PJRT_ARGS(PJRT_Event_Await, args);
  args.event = event.get();
  api.check(api.table().PJRT_Event_Await(&args), doing);
}

void settle(const Api& api, const Event& event) noexcept {
  if (!event || !api.has(&PJRT_Api::PJRT_Event_Await)) return;
  SYSTOLE_PJRT_ARGS(PJRT_Event_Await, args);
  args.event = event.get();
  api.discard(api.table().PJRT_Event_Await(&args));
}

}  // namespace systole::pjrt
