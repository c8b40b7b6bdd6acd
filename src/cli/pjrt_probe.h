#pragma once

// `systole pjrt-probe NAME PATH DESCRIPTOR` is what the library starts to try a PJRT plugin outside its own
// process, `systole tpu-question` to compile for a TPU. They are no commands for people, so they stand in no
// list.

namespace systole::cli {

// Runs either and does not return when that is what the arguments ask for.
void probe_when_asked(int argc, char** argv);

}  // namespace systole::cli
