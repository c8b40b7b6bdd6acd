#pragma once

// The options by which a user says that a file or folder may be trusted.

#include "cli/train/evaluation.h"

namespace systole::cli {

class App;

void add_kernels_option(App& app, Trust& trust);
void add_links_option(App& app, Trust& trust);
void add_weights_option(App& app, Trust& trust);

}  // namespace systole::cli
