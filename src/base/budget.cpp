#include "base/budget.h"

#include <fmt/format.h>

#include "systole/base/error.h"

namespace systole {

void Budget::take(std::uint64_t bytes, std::string_view what) {
  if (bytes > left())
    throw Error(ErrorKind::kLimit, file_,
                fmt::format("{} would expand the file to more memory than it may ask for", what),
                fmt::format("at most {} bytes in all{}{}", limit_, advice_.empty() ? "" : "; ", advice_),
                fmt::format("{} bytes more than the {} taken so far", bytes, taken_));
  taken_ += bytes;
}

}  // namespace systole
