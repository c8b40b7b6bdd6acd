// Data sets by a short text, KIND:PLACE?OPTION=VALUE&…, and arrays from files.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "base/naming_file.h"
#include "base/nearest.h"
#include "data/fetch.h"
#include "data/open.h"
#include "data/passed_over.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"
#include "systole/io.h"

namespace systole::data {

namespace {

namespace fs = std::filesystem;

// The options after the question mark. What nobody asks for is an error.
class Options {
 public:
  Options(std::string_view text, std::string_view spec) : spec_(spec) {
    while (!text.empty()) {
      const std::string_view one = text.substr(0, text.find('&'));
      const std::size_t equals = std::min(one.find('='), one.size());
      values_.emplace(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
      text.remove_prefix(std::min(one.size() + 1, text.size()));
    }
  }

  bool flag(std::string_view name, bool otherwise = false) {
    const std::optional<std::string> value = take(name);
    return value ? *value != "0" && *value != "false" : otherwise;
  }
  std::string text(std::string_view name) { return take(name).value_or(""); }
  std::int64_t number(std::string_view name, std::int64_t otherwise) {
    const std::optional<std::string> value = take(name);
    if (!value) return otherwise;
    std::int64_t result = 0;
    const auto [end, code] = std::from_chars(value->data(), value->data() + value->size(), result);
    if (code != std::errc() || end != value->data() + value->size())
      throw Error(ErrorKind::kInvalidArgument, spec_, fmt::format("wrong {}", name), "a whole number",
                  *value);
    return result;
  }
  std::vector<std::string> list(std::string_view name) {
    std::vector<std::string> result;
    const std::string joined = text(name);
    for (std::string_view rest = joined; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find(','));
      result.emplace_back(one);
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    }
    return result;
  }
  void finish() const {
    for (const auto& [name, value] : values_) {
      const Error error = unknown_name(spec_, "option", name, asked_);
      std::error_code code;
      const std::string file = spec_.substr(std::min(spec_.find(':') + 1, spec_.size()));
      if (!fs::exists(file, code)) throw error;
      throw Error(error.kind(), error.where(), error.message(),
                  fmt::format("{}; or '{}?' for the file of that name", error.expected(), file), error.got());
    }
  }

  // One of these words; `otherwise` when it is not given.
  template <class T>
  T choice(std::string_view name, std::initializer_list<std::pair<std::string_view, T>> known, T otherwise) {
    const std::optional<std::string> value = take(name);
    if (!value) return otherwise;
    std::vector<std::string_view> words;
    for (const auto& [word, choice] : known) {
      if (word == *value) return choice;
      words.push_back(word);
    }
    throw Error(ErrorKind::kInvalidArgument, spec_, fmt::format("wrong {}", name),
                fmt::format("{}", fmt::join(words, ", ")), *value);
  }

  // What a reader needs and finds beside the samples.
  const CsvFeatures* like = nullptr;
  std::shared_ptr<BadSamples> skipped;
  CsvFeatures features;
  std::string missing;
  std::int32_t rate = 0;  // of the sound

 private:
  std::optional<std::string> take(std::string_view name) {
    asked_.push_back(name);
    const auto found = values_.find(name);
    if (found == values_.end()) return {};
    std::optional<std::string> value = found->second;
    values_.erase(found);
    return value;
  }

  std::string spec_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string_view> asked_;
};

// DIR/train and DIR/test, or all of it to train on.
TrainTest image_folders(const fs::path& folder, Options& options) {
  ImageOptions images_as;
  images_as.channels = static_cast<int>(options.number("channels", 3));
  const std::int64_t side = options.number("size", 0);
  images_as.height = options.number("height", side);
  images_as.width = options.number("width", side);
  images_as.mode = options.choice<io::PictureMode>("mode",
                                                   {{"colours", io::PictureMode::colours},
                                                    {"index", io::PictureMode::index},
                                                    {"gray16", io::PictureMode::gray16}},
                                                   io::PictureMode::colours);
  images_as.upright = options.flag("upright", true);
  options.finish();
  std::error_code code;
  if (!fs::is_directory(folder / "train", code)) return {images(folder, images_as), {}};
  TrainTest both{images(folder / "train", images_as), {}};
  std::string test;
  for (const char* name : {"test", "val", "valid"})
    if (test.empty() && fs::is_directory(folder / name, code))
      both.test = images_like(folder / (test = name), images_as, both.train.info().fields.back().classes);
  PassedOver beside;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string();
        !name.starts_with('.') && name != "train" && name != test)
      beside.add(entry.is_directory(code) ? "folder " + name : kind_of(entry.path()));
  beside.warn(folder);
  return both;
}

// The arrays of these names, or all; `file` is for messages.
Source source_of(const std::vector<io::NamedArray>& all, const fs::path& file,
                 const std::vector<std::string>& names) {
  std::vector<Literal> columns;
  std::vector<std::string> fields;
  std::vector<std::string_view> known;
  for (const io::NamedArray& array : all) known.push_back(array.name);
  const auto add = [&](const io::NamedArray& array) {
    columns.push_back(array.value);
    fields.push_back(array.name);
  };
  if (names.empty()) std::for_each(all.begin(), all.end(), add);
  for (const std::string& name : names) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name == name; });
    if (found == all.end())
      throw Error(ErrorKind::kNotFound, file.string(), fmt::format("there is no array '{}'", name),
                  fmt::format("{}", fmt::join(known, ", ")));
    add(*found);
  }
  try {
    return arrays(std::move(columns)).named(file.filename().string(), fields);
  } catch (const Error& error) {
    throw error.within(file.string());
  }
}

CsvOptions csv_options(Options& options) {
  CsvOptions as;
  as.label = options.text("label");
  as.features = options.list("features");
  as.drop = options.list("drop");
  for (std::string& name : options.list("text")) as.types.push_back({std::move(name), CsvType::kText});
  for (std::string& name : options.list("number")) as.types.push_back({std::move(name), CsvType::kNumber});
  as.regression = options.flag("regression");
  as.unlabelled = options.flag("unlabelled");
  as.skip_unlabelled = options.flag("skip_unlabelled");
  as.allow_infinite = options.flag("allow_infinite");
  as.one_hot = options.number("one_hot", as.one_hot);
  as.header = options.choice<CsvHeader>("header",
                                        {{"auto", CsvHeader::kAuto},
                                         {"none", CsvHeader::kNone},
                                         {"names", CsvHeader::kNames},
                                         {"counts", CsvHeader::kCounts}},
                                        CsvHeader::kAuto);
  options.finish();
  return as;
}

struct Kind {
  std::string_view name;
  bool needs_place;
  TrainTest (*read)(const fs::path& place, Options& options);
};

TrainTest mnist_kind(const fs::path& place, Options& options,
                     TrainTest (*read)(const fs::path&, const MnistOptions&)) {
  const MnistOptions as{.channel = options.flag("channel")};
  options.finish();
  return read(place, as);
}

const Kind kKinds[] = {
    {"mnist", true, [](const fs::path& p, Options& o) { return mnist_kind(p, o, mnist); }},
    {"fashion", true, [](const fs::path& p, Options& o) { return mnist_kind(p, o, fashion_mnist); }},
    {"cifar10", true,
     [](const fs::path& p, Options& o) {
       o.finish();
       return cifar10(p);
     }},
    {"digits", false,
     [](const fs::path&, Options& o) {
       const std::int64_t train = o.number("train", 20'000), test = o.number("test", 5'000);
       o.finish();
       return embedded_digits(train, test);
     }},
    {"images", true, image_folders},
    {"csv", true,
     [](const fs::path& p, Options& o) {
       CsvSet set = csv_set(p, csv_options(o), o.like);
       o.features = std::move(set.features);
       o.missing = std::move(set.missing);
       return TrainTest{std::move(set.source), {}};
     }},
    {"npy", true,
     [](const fs::path& p, Options& o) {
       o.finish();
       return TrainTest{npy(p), {}};
     }},
    {"npz", true,
     [](const fs::path& p, Options& o) {
       const std::vector<std::string> names = o.list("arrays");
       o.finish();
       if (!names.empty()) return TrainTest{npz(p, names), {}};
       // Keras's names for a set in two parts.
       const std::vector<io::NamedArray> all = io::load_npz(p);
       const auto has = [&](const char* name) {
         return std::any_of(all.begin(), all.end(), [&](const io::NamedArray& a) { return a.name == name; });
       };
       if (has("x_train") && has("y_train") && has("x_test") && has("y_test"))
         return TrainTest{source_of(all, p, {"x_train", "y_train"}), source_of(all, p, {"x_test", "y_test"})};
       return TrainTest{source_of(all, p, {}), {}};
     }},
    {"text", true,
     [](const fs::path& p, Options& o) {
       TextOptions as;
       as.window = o.number("window", as.window);
       as.stride = o.number("stride", as.stride);
       as.bytes = o.flag("bytes");
       o.finish();
       return TrainTest{text(p, as), {}};
     }},
    {"audio", true,
     [](const fs::path& p, Options& o) {
       AudioOptions as;
       as.samples = o.number("samples", 0);
       as.class_is_folder = o.flag("folders");
       as.skipped = o.skipped;
       o.finish();
       const AudioSet set = audio(p, as);
       o.rate = set.rate;
       return TrainTest{set.source, {}};
     }},
};

// A place that is missing, or given where there is none.
Error wrong_place(std::string_view spec, const Kind& kind) {
  const std::string where = "data " + std::string(spec);
  if (!kind.needs_place)
    return Error(ErrorKind::kInvalidArgument, where, "this set is part of the program",
                 std::string(kind.name));
  const std::vector<KnownSet>& sets = known_sets();
  if (std::none_of(sets.begin(), sets.end(), [&](const KnownSet& set) { return set.name == kind.name; }))
    return Error(ErrorKind::kInvalidArgument, where, "the place of the data is missing",
                 fmt::format("{}:PLACE", kind.name));
  const std::string folder = fmt::format("data/{}", kind.name);  // where `systole data get` puts it
  std::error_code code;
  return Error(
      ErrorKind::kInvalidArgument, where, "the folder of the data is missing",
      fs::is_directory(folder, code)
          ? fmt::format("{}:{}, which is there", kind.name, folder)
          : fmt::format("{0}:FOLDER; `systole data get {0}` fetches the files into {1} (--from ADDRESS "
                        "takes them from a mirror)",
                        kind.name, folder));
}

// Whether a text after a question mark is options: "label=Y&regression". A value may be anything, so that an
// option's question mark begins nothing.
bool are_options(std::string_view text) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('&')), name = one.substr(0, one.find('='));
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return c == '_' || c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0;
    });
    if (!is_name) return false;
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return true;
}

}  // namespace

SpecParts parts_of(std::string_view spec) {
  SpecParts parts{.kind = spec.substr(0, spec.find_first_of(":?")), .place = {}, .options = {}};
  std::string_view rest = spec.substr(parts.kind.size());
  const bool has_place = rest.starts_with(':');
  if (has_place) rest.remove_prefix(1);
  std::size_t at = rest.find('?');
  while (at != rest.npos && !are_options(rest.substr(at + 1))) at = rest.find('?', at + 1);
  if (has_place) parts.place = rest.substr(0, at);
  if (at != rest.npos) parts.options = rest.substr(at + 1);
  return parts;
}

TrainTest open(std::string_view spec) { return open_all(spec).both; }

Opened open_all(std::string_view spec, const CsvFeatures* like, std::shared_ptr<BadSamples> skipped) {
  const auto [kind, place, rest] = parts_of(spec);
  std::vector<std::string_view> names;
  for (const Kind& known : kKinds) {
    names.push_back(known.name);
    if (known.name != kind) continue;
    if (known.needs_place == place.empty()) throw wrong_place(spec, known);
    Options options(rest, "data " + std::string(spec));
    options.like = like;
    options.skipped = std::move(skipped);
    TrainTest both = naming_file(fs::path(place), [&] { return known.read(fs::path(place), options); });
    return {std::move(both), options.rate, std::move(options.features), std::move(options.missing)};
  }
  throw unknown_name("data " + std::string(spec), "kind of data", kind, names);
}

std::vector<CsvColumn> columns_of(std::string_view spec) {
  const auto [kind, place, rest] = parts_of(spec);
  if (kind != "csv" || place.empty()) return {};
  Options options(rest, "data " + std::string(spec));
  return csv_columns(fs::path(place), csv_options(options));
}

Source npy(const fs::path& file) {
  return naming_file(file, [&] { return arrays(io::load_npy(file)).named(file.filename().string()); });
}

Source npz(const fs::path& file, const std::vector<std::string>& names) {
  return source_of(io::load_npz(file), file, names);
}

}  // namespace systole::data
