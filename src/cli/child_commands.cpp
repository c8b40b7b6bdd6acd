#include "cli/child_commands.h"

#include <fcntl.h>
#include <charconv>
#include <string_view>

#ifdef SYSTOLE_HAVE_PJRT
#include "backend/pjrt/child.h"
#include "backend/pjrt/probe.h"
#include "backend/pjrt/tpu_child.h"
#endif

namespace systole::cli {

#ifdef SYSTOLE_HAVE_PJRT

void run_child_command(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == pjrt::kTpuQuestionCommand &&
      ::fcntl(pjrt::kChildQuestion, F_GETFD) >= 0)
    pjrt::answer_tpu_question();
  if (argc != 5 || std::string_view(argv[1]) != pjrt::kProbeCommand) return;
  const std::string_view number = argv[4];
  int descriptor = -1;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), descriptor);
  if (code == std::errc() && end == number.data() + number.size() && descriptor > 2)
    pjrt::probe_here({argv[2], argv[3], "probe"}, descriptor);
}

#else

void run_child_command(int, char**) {}

#endif

}  // namespace systole::cli
