#include "cli/train/graph_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/folder_lock.h"
#include "cli/terminal.h"
#include "cli/train/run_folder.h"
#include "systole/base/error.h"
#include "systole/io/safetensors.h"
#include "systole/ir/text.h"
#include "train/model_file.h"

namespace systole::cli {

namespace fs = std::filesystem;

namespace {

// Why a folder holds no model, and what to do.
std::string without_model(const fs::path& folder) {
  if (!is_run(folder)) return "the folder holds no model.safetensors";
  const std::string holder = holder_of(folder);
  return holder.empty()
             ? fmt::format("the run has no model yet: it did not end; to go on: {}", command_to_go_on(folder))
             : fmt::format("the run has no model yet: {} writes to it", holder);
}

}  // namespace

bool names_saved_model(const std::string& place) {
  std::error_code code;
  return place != "-" && (place.ends_with(".safetensors") || fs::is_directory(place, code));
}

std::string model_file(const std::string& place) {
  std::error_code code;
  if (!fs::is_directory(place, code)) return place;
  const fs::path file = fs::path(place) / "model.safetensors";
  if (!fs::exists(file, code)) throw Error(ErrorKind::kNotFound, place, without_model(place));
  return file.string();
}

ir::Graph read_graph(const std::string& place, const Trust& trust) {
  if (!names_saved_model(place)) return ir::parse(read_text(place), place == "-" ? "<stdin>" : place);
  const std::string file = model_file(place);  // throws when a run has no model
  // By the folder's name, so that a link out of it is noticed.
  const std::optional<std::string> graph =
      io::SafetensorsReader(place, {.follow_links = trust.follow_links}).metadata(training::kGraphKey);
  if (!graph)
    throw Error(ErrorKind::kUnsupported, file, "the file holds weights alone, no graph",
                "a model that `systole train` or systole::save() wrote");
  return ir::parse(*graph, fmt::format("{}: {}", file, training::kGraphKey));
}

}  // namespace systole::cli
