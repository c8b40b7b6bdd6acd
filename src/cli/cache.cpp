// systole cache: the compiled programs on the disk, how much they take, and their removal.

#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"

namespace systole::cli {

namespace {

std::string described(const runtime::DiskCache::Usage& usage) {
  return fmt::format("{} compiled program{}, {}", usage.entries, usage.entries == 1 ? "" : "s",
                     size_text(static_cast<double>(usage.bytes)));
}

int show(bool clear) {
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (!cache)
    throw Error(ErrorKind::kNotFound, "cache", "there is none",
                "SYSTOLE_CACHE not 0, and SYSTOLE_CACHE_DIR, XDG_CACHE_HOME or HOME set");
  const std::string folder = cache->folder().string();
  if (clear)
    put(fmt::format("{}: removed {}\n", folder, described(cache->clear())));
  else
    put(fmt::format("{}: {} of {}\n", folder, described(cache->usage()),
                    size_text(static_cast<double>(cache->limit()))));
  if (const std::string reason = cache->refusal(); !reason.empty())
    put(fmt::format("not used: {}\n", reason));
  return 0;
}

}  // namespace

Action add_cache(App& app) {
  auto clear = std::make_shared<bool>(false);
  app.add_flag("--clear", *clear, "remove them all");
  app.footer(
      "SYSTOLE_CACHE_DIR names the folder, SYSTOLE_CACHE_LIMIT its size (bytes, or 500M, 4G;\n"
      "4 GiB when unset; what was used longest ago goes first), and SYSTOLE_CACHE=0 turns it off.");
  return [clear] { return show(*clear); };
}

}  // namespace systole::cli
