#pragma once

namespace systole::passes {

// Whether what a pass makes is verified: in debug builds, and when SYSTOLE_VERIFY=1.
bool verify_wanted();

}  // namespace systole::passes
