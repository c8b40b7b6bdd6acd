#include "cli/trust.h"
#include "cli/options.h"

namespace systole::cli {

void add_kernels_option(App& app, Trust& trust) {
  app.add_flag("--kernels", trust.kernels,
               "compile and run kernels whose source is in the file: only of a file that you trust");
}

void add_links_option(App& app, Trust& trust) {
  app.add_flag("--follow-links", trust.follow_links,
               "read files that links lead to out of a folder of weights: only of a folder that you trust");
}

void add_weights_option(App& app, Trust& trust) {
  app.add_flag(
      "--other-weights", trust.other_weights,
      "use weights that are not those the model was saved with: only when you changed them yourself");
}

}  // namespace systole::cli
