#pragma once

// Where libraries that are loaded at run time may come from, beside the loader's own places.

#include <filesystem>
#include <string>
#include <vector>

namespace systole::runtime {

// The folders that an environment variable lists, separated by ':'.
std::vector<std::filesystem::path> listed_folders(const char* variable);

// Folders of packages: those of SYSTOLE_PLUGIN_PATH, then those beside the program, where it was built and
// where it is installed. Of the latter none that others may write to: code is loaded from there.
std::vector<std::filesystem::path> package_folders();

}  // namespace systole::runtime
