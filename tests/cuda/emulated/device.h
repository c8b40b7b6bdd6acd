#pragma once

#include <string_view>

namespace systole::emulated {

extern const std::string_view kDevice;  // the text of device.inc

}  // namespace systole::emulated
