#pragma once

// `systole pjrt-probe NAME PATH DESCRIPTOR` is what the library starts to try a PJRT plugin outside its own
// process. It is no command for people, so it stands in no list.

namespace systole::cli {

// Runs the probe and does not return when that is what the arguments ask for.
void probe_when_asked(int argc, char** argv);

}  // namespace systole::cli
