#pragma once

// Where libraries that are loaded at run time may come from, beside the loader's own places.

#include <filesystem>
#include <string>
#include <vector>

namespace systole::runtime {

// The file that holds this code, resolved: libsystole.so, or the program that it is linked into. Empty when
// the system does not say.
std::filesystem::path own_file();

// The folders that an environment variable lists, separated by ':'.
std::vector<std::filesystem::path> listed_folders(const char* variable);

// Folders of packages, in the order in which they are searched: those of SYSTOLE_PLUGIN_PATH, those beside
// the library, those beside the program. Beside means both where it was built and where it is installed. Of
// the latter two none that others may write to: code is loaded from there.
std::vector<std::filesystem::path> package_folders();
// The same for a library and a program that lie there; for tests.
std::vector<std::filesystem::path> package_folders(const std::filesystem::path& library,
                                                   const std::filesystem::path& program);
// From here on package_folders() are these, whatever there is; for tests, before anything is loaded.
void use_package_folders(std::vector<std::filesystem::path> folders);

}  // namespace systole::runtime
