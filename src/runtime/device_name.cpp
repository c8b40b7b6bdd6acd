// Device names as text. Aliases are resolved here and nowhere else; whether a device exists is the registry's
// matter.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "systole/base/error.h"
#include "systole/runtime.h"

namespace systole {

namespace {

constexpr std::string_view kAccepted =
    "cpu, cuda:0 (also gpu, /gpu:0, /device:GPU:0), tpu:0, opencl:0, pjrt:NAME:0, reference, auto or the "
    "name of a registered backend, any case";

bool is_name(std::string_view text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), fits);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

}  // namespace

DeviceName DeviceName::parse(std::string_view text) {
  const auto fail = [&](std::string message) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("device \"{}\"", text), std::move(message),
                std::string(kAccepted));
  };
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view rest = lower;
  if (rest.starts_with("/")) rest.remove_prefix(1);
  if (rest.starts_with("device:")) rest.remove_prefix(7);

  std::vector<std::string_view> parts = split(rest);
  DeviceName name;
  name.backend = parts[0] == "gpu" ? "cuda" : parts[0];
  parts.erase(parts.begin());
  if (!is_name(name.backend)) fail("not a device name");
  if (name.backend == "pjrt") {
    if (parts.empty() || !is_name(parts[0])) fail("a PJRT device needs the name of its plugin");
    name.plugin = parts[0];
    parts.erase(parts.begin());
  }
  if (parts.size() > 1 || (name.backend == "auto" && !parts.empty())) fail("too many parts");
  if (!parts.empty()) {
    const char* end = parts[0].data() + parts[0].size();
    const auto [stop, error] = std::from_chars(parts[0].data(), end, name.ordinal);
    if (error != std::errc() || stop != end || name.ordinal < 0)
      fail("the part after the colon is not a device number");
  }
  return name;
}

std::string DeviceName::backend_name() const { return plugin.empty() ? backend : backend + ":" + plugin; }

std::string DeviceName::to_string() const {
  const std::string base = backend_name();
  const bool single = backend == "cpu" || backend == "reference" || backend == "auto";
  return single && ordinal == 0 ? base : fmt::format("{}:{}", base, ordinal);
}

}  // namespace systole
