#pragma once

#include <string>

#include "systole/base/literal.h"

namespace systole::io {

struct NamedArray {
  std::string name;
  Literal value;
};

}  // namespace systole::io
