// systole devices: every device of every backend, and why a backend has none.

#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "systole/base/error.h"
#include "systole/runtime.h"

namespace systole::cli {

namespace {

struct Row {
  std::string device, memory, description;
};

int list_devices() {
  std::vector<Row> present, absent;
  for (const std::string& name : runtime::backend_names()) try {
      runtime::Backend& backend = runtime::backend(name);
      const std::vector<runtime::DeviceInfo> devices = backend.devices();
      // A backend may have some devices and a reason why there are not more.
      if (const std::string reason = backend.unavailable_reason(); devices.empty() || !reason.empty())
        absent.push_back({name, "", reason});
      for (const runtime::DeviceInfo& device : devices)
        present.push_back(
            {device.name.to_string(),
             device.memory_bytes > 0 ? size_text(static_cast<double>(device.memory_bytes)) : "-",
             device.description});
    } catch (const Error& error) {  // one broken backend must not hide the others
      absent.push_back({name, "", error.what()});
    }
  int device_width = 6, memory_width = 6;
  for (const std::vector<Row>* rows : {&present, &absent})
    for (const Row& row : *rows) {
      device_width = std::max(device_width, columns(row.device));
      memory_width = std::max(memory_width, columns(row.memory));
    }
  put(coloured(Colour::bold,
               padded("device", device_width) + "  " + padded("memory", memory_width) + "  description") +
      "\n");
  for (const Row& row : present)
    put(fmt::format("{}  {}  {}\n", padded(row.device, device_width), padded(row.memory, memory_width),
                    row.description));
  for (const Row& row : absent)
    put(fmt::format("{}  {}  not available: {}\n", padded(row.device, device_width),
                    padded("-", memory_width), row.description));
  return 0;
}

}  // namespace

Action add_devices(App& app) {
  app.footer("Give a name from the first column to systole run --device.");
  return list_devices;
}

}  // namespace systole::cli
