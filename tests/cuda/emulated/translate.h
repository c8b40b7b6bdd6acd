#pragma once

// CUDA C++, preprocessed, to C++ that device.inc makes complete.

#include <string>
#include <vector>

namespace systole::emulated {

// `templates` are kernels to be made of templates: "scale<float>".
std::string translated(const std::string& source, const std::vector<std::string>& templates);

}  // namespace systole::emulated
