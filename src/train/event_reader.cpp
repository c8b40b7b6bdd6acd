// Scalars out of event files: ours, PyTorch's and TensorFlow's.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/protobuf.h"
#include "io/tfrecord.h"
#include "systole/base/error.h"
#include "systole/train/tensorboard.h"

namespace systole::training {

namespace {

using io::protobuf::Field;
using io::protobuf::Reader;
using io::protobuf::Wire;

// A tensor of one number of a kind that scalars have.
std::optional<double> number_of(Reader tensor) {
  std::int64_t dtype = 0;
  std::string_view content;
  std::vector<float> floats;
  std::vector<double> doubles;
  for (Field f; tensor.next(f);) {
    if (f.number == 1 && f.wire == Wire::varint) dtype = f.integer();
    if (f.number == 4) content = tensor.text(f);
    if (f.number == 5) tensor.append(f, floats);
    if (f.number == 6) tensor.append(f, doubles);
  }
  if (dtype == 1 && content.size() == sizeof(float)) {
    float value = 0;
    std::memcpy(&value, content.data(), sizeof value);
    return value;
  }
  if (dtype == 2 && content.size() == sizeof(double)) {
    double value = 0;
    std::memcpy(&value, content.data(), sizeof value);
    return value;
  }
  if (dtype == 1 && content.empty() && floats.size() == 1) return floats[0];
  if (dtype == 2 && content.empty() && doubles.size() == 1) return doubles[0];
  return std::nullopt;
}

// The plugin named in a value's metadata.
std::string plugin_of(Reader metadata) {
  std::string plugin;
  for (Field f; metadata.next(f);) {
    if (f.number != 1) continue;
    Reader data(f, metadata);
    for (Field g; data.next(g);)
      if (g.number == 1) plugin = data.text(g);
  }
  return plugin;
}

using Scalars = std::map<std::string, std::vector<ScalarPoint>>;

class EventReader {
 public:
  explicit EventReader(Scalars& out) : out_(out) {}

  void event(Reader event) {
    ScalarPoint point;
    std::vector<Field> summaries;
    for (Field f; event.next(f);) {
      if (f.number == 1 && f.wire == Wire::fixed64) point.wall_time = f.float64();
      if (f.number == 2 && f.wire == Wire::varint) point.step = f.integer();
      if (f.number == 5) summaries.push_back(f);
    }
    for (const Field& s : summaries) {
      Reader summary(s, event);
      for (Field f; summary.next(f);)
        if (f.number == 1) value(Reader(f, summary), point);
    }
  }

 private:
  void value(Reader value, ScalarPoint point) {
    std::string tag;
    std::optional<std::string> plugin;
    std::optional<double> simple, tensor;
    for (Field f; value.next(f);) {
      if (f.number == 1) tag = value.text(f);
      if (f.number == 2 && f.wire == Wire::fixed32) simple = f.float32();
      if (f.number == 8) tensor = number_of(Reader(f, value));
      if (f.number == 9) plugin = plugin_of(Reader(f, value));
    }
    // TensorFlow names the plugin with the first value of a tag only.
    if (plugin) plugins_[tag] = *plugin;
    if (!simple && plugins_[tag] == "scalars") simple = tensor;
    if (!simple) return;
    point.value = *simple;
    out_[tag].push_back(point);
  }

  Scalars& out_;
  std::map<std::string, std::string> plugins_;
};

}  // namespace

Scalars read_scalars(const std::filesystem::path& log) {
  std::vector<std::filesystem::path> files;
  const bool is_folder = std::filesystem::is_directory(log);
  if (is_folder) {
    for (const auto& entry : std::filesystem::directory_iterator(log))
      if (entry.path().filename().string().find("tfevents") != std::string::npos)
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());  // their names begin with the time
    if (files.empty())
      throw Error(ErrorKind::kNotFound, log.string(), "no event file in this folder", "*tfevents*");
  } else {
    files.push_back(log);
  }
  Scalars scalars;
  for (const std::filesystem::path& file : files) {
    const auto source = is_folder ? open_regular_file(file) : open_file(file);
    const std::string name = file.string();
    io::RecordReader records(*source, name);
    EventReader events(scalars);
    while (const std::optional<std::string> record = records.next())
      events.event(Reader(*record, name, records.data_offset()));
  }
  for (auto& [tag, points] : scalars)
    std::stable_sort(points.begin(), points.end(),
                     [](const ScalarPoint& a, const ScalarPoint& b) { return a.step < b.step; });
  return scalars;
}

}  // namespace systole::training
