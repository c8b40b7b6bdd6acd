// Recordings with their classes, from a folder or an archive.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/log.h"
#include "base/naming_file.h"
#include "data/passed_over.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/bad_samples.h"
#include "systole/data/sets.h"
#include "systole/io/archive.h"
#include "systole/io/wav.h"

namespace systole::data {

namespace {

namespace fs = std::filesystem;

// The recordings of a place, in the order of their names.
struct Members {
  std::vector<io::Member> all;  // the bytes are those of an archive
  bool in_folder = false;

  io::Sound sound(std::size_t i, const fs::path& place, const std::string& where) const {
    if (!in_folder) return io::parse_wav(all[i].bytes, where);
    const fs::path file = place / all[i].name;
    return naming_file(file, [&] { return io::parse_wav(io::read_unpacked(file), where); });
  }
};

Members recordings(const fs::path& place) {
  Members members;
  PassedOver passed_over;
  const auto wanted = [&](const fs::path& name) {
    if (ending_of(name) == ".wav") return true;
    if (!name.filename().string().starts_with('.')) passed_over.add(kind_of(name));
    return false;
  };
  std::error_code code;
  if (!fs::is_directory(place, code)) {
    members.all = naming_file(
        place, [&] { return io::read_tar(place, [&](std::string_view name) { return wanted(name); }); });
  } else {
    members.in_folder = true;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(place))
      if (entry.is_regular_file(code) && wanted(entry.path()))
        members.all.push_back({fs::relative(entry.path(), place).generic_string(), {}});
  }
  std::sort(members.all.begin(), members.all.end(),
            [](const io::Member& a, const io::Member& b) { return a.name < b.name; });
  passed_over.warn(place);
  if (members.all.empty())
    throw Error(ErrorKind::kNotFound, place.string(), "no recordings", "files that end in .wav");
  return members;
}

std::string class_of(const std::string& name, bool by_folder) {
  const fs::path path(name);
  if (by_folder) return path.parent_path().filename().string();
  const std::string stem = path.stem().string();
  return stem.substr(0, stem.find('_'));
}

// One channel, of this length unless 0.
Literal one_channel(const Literal& samples, std::int64_t length) {
  const std::int64_t count = samples.shape()[0].value(), wanted = length == 0 ? count : length;
  if (samples.rank() == 1 && count == wanted) return samples;
  const std::int64_t channels = samples.rank() == 2 ? samples.shape()[1].value() : 1;
  Literal made(Type{DType::f32, {wanted}});
  const float* const in = samples.values<float>().data();
  float* const out = made.mutable_values<float>().data();
  for (std::int64_t i = 0; i < std::min(count, wanted); ++i) {
    float sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) sum += in[i * channels + c];
    out[i] = sum / static_cast<float>(channels);
  }
  return made;
}

class Recordings final : public Rows {
 public:
  Recordings(std::vector<Literal> samples, std::vector<std::int32_t> labels, Info info)
      : samples_(std::move(samples)), labels_(std::move(labels)), info_(std::move(info)) {}
  std::int64_t size() const override { return std::ssize(samples_); }
  Sample get(std::int64_t i) const override {
    const std::size_t at = static_cast<std::size_t>(i);
    return {samples_[at], Literal::scalar(labels_[at])};
  }
  Info info() const override { return info_; }
  std::optional<std::vector<std::int64_t>> known_labels(std::size_t field) const override {
    if (field != 1) return {};
    return std::vector<std::int64_t>(labels_.begin(), labels_.end());
  }

 private:
  std::vector<Literal> samples_;
  std::vector<std::int32_t> labels_;
  Info info_;
};

}  // namespace

AudioSet audio(const fs::path& place, const AudioOptions& options) {
  if (options.samples < 0)
    throw Error(ErrorKind::kInvalidArgument, "data::audio", "wrong number of samples", "0 or more",
                fmt::format("{}", options.samples));
  AudioSet set;
  std::vector<Literal> samples;
  std::vector<std::string> names;
  const Members members = recordings(place);
  std::exception_ptr first;  // of what was left out
  for (std::size_t i = 0; i < members.all.size(); ++i) {
    const std::string& member = members.all[i].name;
    const std::string where = fmt::format("sample {}: {}: {}", i, place.string(), member);
    io::Sound sound;
    try {
      sound = members.sound(i, place, where);
    } catch (const Error& error) {
      if (!options.skipped || !is_the_samples(error.kind())) throw;
      if (!first) first = std::current_exception();
      if (options.skipped->add(static_cast<std::int64_t>(i)))
        log(LogLevel::warn, fmt::format("a recording cannot be read, and is left out: {}", error.what()));
      continue;
    }
    if (set.rate == 0) set.rate = sound.rate;
    if (sound.rate != set.rate)
      throw Error(ErrorKind::kInvalidArgument, where, "recordings of two rates", fmt::format("{}", set.rate),
                  fmt::format("{}", sound.rate));
    samples.push_back(one_channel(sound.samples, options.samples));
    set.files.push_back(member);
    names.push_back(class_of(member, options.class_is_folder));
  }
  if (samples.empty()) std::rethrow_exception(first);
  const std::vector<std::string> classes = in_order(names);
  std::vector<std::int32_t> labels;
  for (const std::string& name : names)
    labels.push_back(
        static_cast<std::int32_t>(std::find(classes.begin(), classes.end(), name) - classes.begin()));
  const std::int64_t count = std::ssize(samples);
  const Dim length = options.samples != 0 ? Dim(options.samples) : Dim::symbol("samples");
  const std::string name = place.filename().string();
  if (options.samples == 0) {
    const Type sound{DType::f32, {length}}, label{DType::i32, {}};
    Info info{name, {}, count};
    info.fields = {Field{"x", sound, {}}, Field{"y", label, classes}};
    set.source =
        Source(std::make_shared<const Recordings>(std::move(samples), std::move(labels), std::move(info)));
    return set;
  }
  Literal all = Literal::uninitialized({DType::f32, {count, options.samples}});
  std::byte* out = all.mutable_bytes();
  for (const Literal& recording : samples) {
    std::memcpy(out, recording.bytes(), recording.byte_size());
    out += recording.byte_size();
  }
  const Literal y = Literal::of<std::int32_t>({count}, std::span<const std::int32_t>(labels));
  set.source = arrays(all, y).named(name, {}, classes);
  return set;
}

}  // namespace systole::data
