#include "backend/cuda/dnn_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "backend/cuda/libraries.h"
#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole::cuda::dnn {

namespace {

constexpr std::size_t kLeastVersion = 90000;

struct Found {
  void* library = nullptr;
  Api api;
  std::string absence;
};

std::string load(void*& library, Api& api) {
  std::string reason;
  library = open_library({"libcudnn.so.9", "libcudnn.so"}, {"nvidia/cudnn/lib"}, reason);
  if (library == nullptr) return reason;
  const auto find = [&](auto& function, const char* name) { return find_function(library, function, name); };
  const bool complete = find(api.create, "cudnnCreate") && find(api.set_stream, "cudnnSetStream") &&
                        find(api.version, "cudnnGetVersion") && find(api.words, "cudnnGetErrorString") &&
                        find(api.last_error, "cudnnGetLastErrorString") &&
                        find(api.new_descriptor, "cudnnBackendCreateDescriptor") &&
                        find(api.free_descriptor, "cudnnBackendDestroyDescriptor") &&
                        find(api.finalize, "cudnnBackendFinalize") &&
                        find(api.set, "cudnnBackendSetAttribute") &&
                        find(api.get, "cudnnBackendGetAttribute") && find(api.execute, "cudnnBackendExecute");
  if (!complete || api.version() < kLeastVersion) return "libcudnn.so is too old: cuDNN 9 is needed";
  return {};
}

const Found& found() {
  static const Found& only = lasting<Found>([] {
    Found made;
    made.absence = load(made.library, made.api);
    return made;
  }());
  return only;
}

}  // namespace

std::string absence() { return found().absence; }
const Api& api() { return found().api; }
void* symbol(const char* name) {
  return found().library == nullptr ? nullptr : ::dlsym(found().library, name);
}

void check(int status, const char* call) {
  if (status == 0) return;
  std::array<char, 512> words{};
  api().last_error(words.data(), words.size());
  constexpr int kNotSupported = 3000;  // and the thousand after it
  throw Error(status >= kNotSupported && status < kNotSupported + 1000 ? ErrorKind::kUnsupported
                                                                       : ErrorKind::kInternal,
              "cudnn", fmt::format("{}: {}: {}", call, api().words(status), words.data()));
}

Object::Object(Kind kind) { check(api().new_descriptor(kind, &descriptor_), "cudnnBackendCreateDescriptor"); }

Object::~Object() {
  if (descriptor_ != nullptr) api().free_descriptor(descriptor_);
}

void Object::set(Attribute name, Type type, const void* value, std::int64_t count) {
  check(api().set(descriptor_, name, type, count, value), "cudnnBackendSetAttribute");
}

void Object::set_object(Attribute name, const Object& value) {
  const Descriptor descriptor = value.get();
  set(name, kDescriptorType, &descriptor);
}

void Object::finalize() { check(api().finalize(descriptor_), "cudnnBackendFinalize"); }

std::int64_t Object::number(Attribute name) const {
  std::int64_t value = 0, count = 0;
  check(api().get(descriptor_, name, kInt64Type, 1, &count, &value), "cudnnBackendGetAttribute");
  return value;
}

}  // namespace systole::cuda::dnn
