#pragma once

// The options by which a user says that a file or folder may be trusted.

#include "cli/train/evaluation.h"

namespace CLI {
class App;
}

namespace systole::cli {

void add_kernels_option(CLI::App& app, Trust& trust);
void add_links_option(CLI::App& app, Trust& trust);

}  // namespace systole::cli
