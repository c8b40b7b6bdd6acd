#pragma once

// Projects to begin with: what `systole new` writes.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace systole::cli {

struct ProjectTemplate {
  std::string_view name, about;
  std::string_view fetch = {};  // the command that brings the data
};
std::span<const ProjectTemplate> project_templates();

// The files written, below `folder`. Throws kInvalidArgument when the folder holds something already.
std::vector<std::string> write_project(const std::filesystem::path& folder,
                                       std::string_view project_template);

}  // namespace systole::cli
