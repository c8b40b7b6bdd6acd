// Article S0, section 5.1: finds the TPU, lists its cores and runs something on each. There is no cluster to
// connect to and no system to initialise: a program drives the TPU of the machine it runs on. Without a TPU
// it says why and takes the best device that is there.
//
//   tpu_connect [NAME]     NAME as in tpu::resolve: empty, "local" or the name of the TPU VM

#include <systole/backend/tpu.h>
#include <systole/systole.h>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "options.h"

namespace {

using namespace systole;

// Whether there is a TPU, and what is known of it.
bool describe(const char* name) {
  try {
    const tpu::Cluster cluster = tpu::resolve(name);
    std::cout << "TPU " << cluster.name << (cluster.accelerator.empty() ? "" : ", ") << cluster.accelerator
              << ", worker " << cluster.worker << " of " << cluster.workers.size() << ", by "
              << cluster.source << "\n";
    if (cluster.several_hosts())
      std::cout << "The slice has several hosts; this program uses the devices of this one.\n";
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound && error.kind() != ErrorKind::kUnsupported) throw;
    std::cout << "No TPU: " << error.what() << "\n";
    return false;
  }
}

// The devices of a backend, or of the best one when that has none.
std::vector<runtime::DeviceInfo> devices_of(const std::string& wanted) {
  std::vector<runtime::DeviceInfo> found;
  for (const runtime::DeviceInfo& device : devices())
    if (device.name.backend == wanted) found.push_back(device);
  if (!found.empty() || wanted != "tpu") return found;
  return devices_of(current_device().backend);  // no device was chosen, so this is what "auto" means
}

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[NAME]");
  const bool there = describe(argc > 1 ? argv[1] : "");
  const std::vector<runtime::DeviceInfo> found = devices_of("tpu");
  if (found.empty() || found[0].name.backend != "tpu") {
    // A TPU that is there and cannot be used has a reason: no libtpu, or another process holds it.
    try {
      if (there) std::cout << "Not usable: " << runtime::backend("tpu").unavailable_reason() << "\n";
    } catch (const Error&) {
      std::cout << "Not usable: libtpu is not installed; scripts/setup fetches it\n";
    }
    std::cout << "Taking the best device there is.\n";
  }
  for (const runtime::DeviceInfo& device : found) {
    const DeviceScope scope(device.name.to_string());
    const Tensor x = arange(8, DType::f32);
    std::cout << device.name.to_string() << ", " << device.description
              << ": 0² + 1² + … + 7² = " << sum(x * x).item<float>() << "\n";
  }
} catch (const std::exception& error) {
  std::cerr << "tpu_connect: " << error.what() << "\n";
  return 1;
}
