#pragma once

// Commands that the library gives to a process of its own, so that what happens there stays there:
// `systole pjrt-probe NAME PATH DESCRIPTOR` tries a PJRT plugin, `systole tpu-question` compiles for a TPU.
// They are no commands for people, so they stand in no list.

namespace systole::cli {

// Runs the one that the arguments ask for and does not return; returns when they ask for neither.
void run_child_command(int argc, char** argv);

}  // namespace systole::cli
