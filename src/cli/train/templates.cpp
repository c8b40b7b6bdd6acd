// A project is a TOML file for `systole train`, with comments from the table of keys, a small C++ program
// that trains on the same data by a Trainer, a CMakeLists.txt for it, a README and, where nothing needs to be
// fetched, its data.

#include "cli/train/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "cli/terminal.h"
#include "cli/train/settings.h"
#include "cli/train/value.h"
#include "systole/base/error.h"
#include "systole/data.h"
#include "systole/io.h"
#include "systole/nn/zoo.h"

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

struct Setting {
  std::string_view key, value;  // the value as TOML
};

struct Project {
  ProjectTemplate shown;
  std::vector<Setting> settings;
  std::string_view layers, shape;  // of the C++ program's model, and of a sample
};

constexpr std::string_view kConvolutions =
    R"(["conv 16 3x3 relu", "maxpool 2", "conv 32 3x3 relu", "maxpool 2", "flatten", "dense 64 relu", "dense 10"])";

const std::vector<Project>& projects() {
  static const std::vector<Project> all = {
      {{"digits", "drawn digits, which are part of systole: runs at once"},
       {{"data.source", "\"digits\""},
        {"model.layers", kConvolutions},
        {"train.epochs", "3"},
        {"train.batch", "64"},
        {"train.optimizer", "\"adam\""},
        {"train.lr", "0.001"}},
       kConvolutions,
       "28, 28, 1"},
      {{"mnist", "handwritten digits", "systole data get mnist --out data/mnist"},
       {{"data.source", "\"mnist:data/mnist\""},
        {"data.augment", "[]"},
        {"model.name", "\"cnn3\""},
        {"train.epochs", "3"},
        {"train.batch", "64"},
        {"train.optimizer", "\"adam\""},
        {"train.lr", "0.001"}},
       kConvolutions,
       "28, 28, 1"},
      {{"cifar10", "small colour pictures of ten kinds", "systole data get cifar10 --out data/cifar10"},
       {{"data.source", "\"cifar10:data/cifar10\""},
        {"data.augment", "[\"flip\", \"crop 4\"]"},
        {"model.name", "\"resnet18\""},
        {"train.epochs", "20"},
        {"train.batch", "128"},
        {"train.optimizer", "\"nesterov\""},
        {"train.optimizer_options", "{weight_decay = 0.0005}"},
        {"train.lr", "0.1"},
        {"train.schedule", "\"one_cycle\""},
        {"train.label_smoothing", "0.1"}},
       kConvolutions,
       "32, 32, 3"},
      {{"csv", "a table with a class in its last column, with an example"},
       {{"data.source", "\"csv:data.csv?label=kind\""},
        {"data.validation", "0.2"},
        {"model.name", "\"mlp\""},
        {"model.hidden", "[32, 32]"},
        {"train.epochs", "30"},
        {"train.batch", "16"},
        {"train.optimizer", "\"adam\""},
        {"train.lr", "0.01"},
        {"train.early_stopping", "10"}},
       R"(["batchnorm", "dense 32 relu", "dense 32 relu", "dense 3"])",
       "4"},
      {{"text", "a text to go on with, letter by letter, with an example"},
       {{"data.source", "\"text:text.txt?window=32&stride=8\""},
        {"data.validation", "0.1"},
        {"model.name", "\"gpt2\""},
        {"model.layers", "2"},
        {"model.width", "64"},
        {"model.heads", "4"},
        {"train.epochs", "20"},
        {"train.batch", "16"},
        {"train.optimizer", "\"adamw\""},
        {"train.lr", "0.003"},
        {"train.schedule", "\"cosine\""},
        {"train.clip_norm", "1.0"}},
       "",
       ""},
      {{"images", "folders of pictures, one for each class, with an example"},
       {{"data.source", "\"images:pictures?size=28&channels=1\""},
        {"data.augment", "[\"rotate 10\"]"},
        {"model.layers", kConvolutions},
        {"train.epochs", "5"},
        {"train.batch", "16"},
        {"train.optimizer", "\"adam\""},
        {"train.lr", "0.002"}},
       kConvolutions,
       "28, 28, 1"},
  };
  return all;
}

std::string unquoted(std::string_view text) { return std::string(text.substr(1, text.size() - 2)); }

std::string_view value_of(const Project& project, std::string_view key) {
  for (const Setting& setting : project.settings)
    if (setting.key == key) return setting.value;
  return {};
}

// What a key means: an option of the model, or one of the table.
std::string help_of(const Project& project, std::string_view section, std::string_view key) {
  if (const std::string_view model = value_of(project, "model.name"); section == "model" && !model.empty())
    for (const nn::zoo::OptionEntry& option : nn::zoo::entry(unquoted(model)).options)
      if (option.name == key) return option.about;
  for (const Key& known : keys())
    if (known.section == section && known.name == key) return std::string(known.help);
  return {};
}

// A file for `systole train`: each key under what it means.
std::string toml_of(const Project& project, const std::string& name) {
  constexpr int kWidth = 96;
  std::string text =
      fmt::format("# {}: systole train train.toml\n# Every key there is: systole train --keys\n", name);
  std::string_view section;
  for (const Setting& setting : project.settings) {
    const std::size_t dot = setting.key.find('.');
    const std::string_view part = setting.key.substr(0, dot), key = setting.key.substr(dot + 1);
    if (part != section) text += fmt::format("\n[{}]\n", section = part);
    for (const std::string& line : wrapped(help_of(project, part, key), kWidth))
      text += fmt::format("# {}\n", line);
    text += fmt::format("{} = {}\n", key, setting.value);
  }
  return text;
}

std::string program_of(const Project& project, const std::string& name) {
  const bool words = project.shown.name == "text";
  const std::string source = unquoted(value_of(project, "data.source"));
  std::string list(project.layers);
  std::replace(list.begin(), list.end(), '[', '{');
  std::replace(list.begin(), list.end(), ']', '}');
  const std::string model =
      words ? "  const std::int64_t words = std::ssize(source.info().fields.back().classes);\n"
              "  nn::AnyModule model = nn::zoo::make(\n"
              "      \"gpt2\", {.input = {32}, .classes = words, .options = {{\"layers\", 2}, {\"width\", "
              "64}, {\"heads\", 4}}});\n"
            : fmt::format("  nn::AnyModule model = nn::layers_model(\n      {},\n      {{{}}});\n", list,
                          project.shape);
  const bool pictures = project.shape.find(',') != std::string_view::npos;
  return fmt::format(
      R"(// {name}: a small start in C++ on the data of train.toml, to be made your own.
//
//   {program} [SOURCE]      {program} "{source}"

)"
      "#include <systole/systole.h>\n"
      R"(
#include <iostream>
#include <tuple>

using namespace systole;

int main(int argc, char** argv) try {{
  random::seed(1);
  auto [source, test] = data::open(argc > 1 ? argv[1] : "{source}");
  if (test.empty()) std::tie(source, test) = source.split(0.8{seed});

{model}
  std::cout << summary(model) << '\n';

{pixels}  training::Trainer trainer(model, "adam", {{.metrics = {{"accuracy"}}{prepare}}});
  trainer.fit(source, {{.epochs = {epochs}, .batch = {batch}, .validation = test}});
  trainer.save("model.safetensors");  // systole::load runs it, and so does `systole predict`
  std::cout << "test " << trainer.evaluate(test).to_string() << '\n';
}} catch (const std::exception& error) {{
  std::cerr << error.what() << '\n';
  return 1;
}}
)",
      fmt::arg("name", name), fmt::arg("program", "build/train"), fmt::arg("source", source),
      fmt::arg("seed", words ? "" : ", 1"), fmt::arg("model", model),
      fmt::arg("pixels", pictures ? fmt::format("  const auto pixels = [](const Tensor& x) {{ return "
                                                "x.to(DType::f32).reshape({{-1, {}}}) / 255; }};\n",
                                                project.shape)
                                  : ""),
      fmt::arg("prepare", pictures ? ", .prepare = pixels" : ""),
      fmt::arg("epochs", value_of(project, "train.epochs")),
      fmt::arg("batch", value_of(project, "train.batch")));
}

std::string cmake_of(const std::string& name) {
  return fmt::format(R"(# cmake -B build -D CMAKE_BUILD_TYPE=Release && cmake --build build
# For a Systole outside /usr/local and /usr, add -D CMAKE_PREFIX_PATH=DIR: the folder that it was installed into.
cmake_minimum_required(VERSION 3.25)
project({} LANGUAGES CXX)
find_package(Systole 0.1 REQUIRED)
add_executable(train main.cpp)
target_link_libraries(train PRIVATE Systole::systole)
)",
                     name);
}

// `picture`: the file of a digit that lies there; empty when there is none.
std::string readme_of(const Project& project, const std::string& name, const std::string& picture) {
  const bool words = project.shown.name == "text";
  return fmt::format(
      R"(# {name}

{about}.

```
{fetch}systole train train.toml --out run        # trains; Ctrl-C and the same command again goes on
systole evaluate run{report}
systole predict run {predict}
systole plot run --out run.svg
```

`train.toml` says what is trained; `systole train --keys` lists everything that may stand in it. Any of it can be changed
for one run: `systole train train.toml --set train.epochs=10`.

`main.cpp` is a small start in C++ on the same data, with a simpler model and settings than `train.toml`'s where those
would be long. It builds against an installed Systole:

```
cmake -B build -D CMAKE_BUILD_TYPE=Release && cmake --build build
build/train
```

CMake finds a Systole in /usr/local or /usr by itself. For one that `make install PREFIX=DIR` put elsewhere, add
`-D CMAKE_PREFIX_PATH=DIR` to the first command.
)",
      fmt::arg("name", name),
      fmt::arg("about",
               [&] {
                 std::string text(project.shown.about);
                 text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
                 return text;
               }()),
      fmt::arg("fetch", project.shown.fetch.empty() ? "" : fmt::format("{}\n", project.shown.fetch)),
      fmt::arg("report", words ? "" : " --report"),
      fmt::arg("predict", words                            ? "--prompt \"From fairest\" --length 200"
                          : project.shown.name == "csv"    ? "data.csv"
                          : project.shown.name == "images" ? "pictures/test/7/*.png"
                          : picture.empty()                ? "picture.png        # one of your own"
                                                           : picture));
}

void write(const fs::path& file, std::string_view text) { write_file(file, std::as_bytes(std::span(text))); }

// Three kinds of fruit that differ in four measures.
std::string example_table() {
  struct Kind {
    const char* name;
    double length, width, weight, firmness;
  };
  constexpr Kind kKinds[] = {
      {"apple", 7.5, 7.8, 180, 7.2}, {"lemon", 8.6, 5.9, 110, 4.9}, {"plum", 4.9, 4.3, 62, 2.8}};
  std::string text = "length,width,weight,firmness,kind\n";
  // Sums of three uniform numbers of a counter: nearly normal, and the same everywhere.
  std::uint64_t state = 1;
  const auto chance = [&] {
    double sum = 0;
    for (int i = 0; i < 3; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
    }
    return 2 * sum;
  };
  for (int i = 0; i < 150; ++i) {
    const Kind& kind = kKinds[i % 3];
    const double size = 1 + 0.1 * chance();
    text += fmt::format("{:.2f},{:.2f},{:.1f},{:.2f},{}\n", kind.length * size * (1 + 0.06 * chance()),
                        kind.width * size * (1 + 0.06 * chance()),
                        kind.weight * size * size * (1 + 0.1 * chance()), kind.firmness + 0.7 * chance(),
                        kind.name);
  }
  return text;
}

constexpr std::string_view kSonnets =
    R"(From fairest creatures we desire increase,
That thereby beauty's rose might never die,
But as the riper should by time decease,
His tender heir might bear his memory:
But thou, contracted to thine own bright eyes,
Feed'st thy light's flame with self-substantial fuel,
Making a famine where abundance lies,
Thyself thy foe, to thy sweet self too cruel.
Thou that art now the world's fresh ornament
And only herald to the gaudy spring,
Within thine own bud buriest thy content
And, tender churl, mak'st waste in niggarding.
Pity the world, or else this glutton be,
To eat the world's due, by the grave and thee.

When forty winters shall besiege thy brow,
And dig deep trenches in thy beauty's field,
Thy youth's proud livery, so gazed on now,
Will be a tatter'd weed, of small worth held:
Then being ask'd where all thy beauty lies,
Where all the treasure of thy lusty days,
To say, within thine own deep-sunken eyes,
Were an all-eating shame and thriftless praise.
How much more praise deserved thy beauty's use,
If thou couldst answer 'This fair child of mine
Shall sum my count and make my old excuse,'
Proving his beauty by succession thine!
This were to be new made when thou art old,
And see thy blood warm when thou feel'st it cold.

Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade
Nor lose possession of that fair thou owest;
Nor shall Death brag thou wander'st in his shade,
When in eternal lines to time thou growest:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
)";

// Drawn digits as .png files, PART/CLASS/NUMBER.png.
void write_pictures(const fs::path& folder) {
  for (const auto& [part, count, seed] :
       {std::tuple{"train", 300, std::uint64_t{1}}, {"test", 60, std::uint64_t{2}}}) {
    const data::Digits digits = data::digits(count, seed);
    const std::span<const std::int32_t> labels = digits.labels.values<std::int32_t>();
    for (int i = 0; i < count; ++i) {
      const fs::path of_class = folder / part / std::to_string(labels[static_cast<std::size_t>(i)]);
      fs::create_directories(of_class);
      const std::span<const std::byte> bytes =
          digits.images.as_bytes().subspan(static_cast<std::size_t>(i) * 28 * 28, 28 * 28);
      io::save_png(of_class / fmt::format("{:03}.png", i), Literal::copy_of({DType::u8, {28, 28}}, bytes));
    }
  }
}

// A drawn digit to ask the model about, as a picture where this build writes them.
std::string write_digit(const fs::path& folder) {
  const data::Digits digits = data::digits(1, 3);
  const Literal image = digits.images.reshaped({28, 28});
  try {
    io::save_png(folder / "picture.png", image);
    return "picture.png";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    io::save_npy(folder / "picture.npy", image);
    return "picture.npy";
  }
}

const Project& project_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Project& project : projects()) {
    if (project.shown.name == name) return project;
    names.push_back(project.shown.name);
  }
  throw unknown_key(fmt::format("--template {}", name), "there is no such template", name, names);
}

// A name that CMake takes for a project.
std::string project_name(const fs::path& folder) {
  std::string name = fs::absolute(folder).lexically_normal().filename().string();
  if (name.empty()) name = fs::absolute(folder).parent_path().filename().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-') c = '_';
  return name.empty() ? "project" : name;
}

}  // namespace

std::span<const ProjectTemplate> project_templates() {
  static const std::vector<ProjectTemplate> shown = [] {
    std::vector<ProjectTemplate> list;
    for (const Project& project : projects()) list.push_back(project.shown);
    return list;
  }();
  return shown;
}

std::vector<std::string> write_project(const fs::path& folder, std::string_view project_template) {
  const Project& project = project_named(project_template);
  std::error_code error;
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder, error)))
    throw Error(ErrorKind::kInvalidArgument, folder.string(),
                "it is there already, and nothing is overwritten", "a new name, or an empty folder");
  fs::create_directories(folder, error);
  if (error)
    throw Error(ErrorKind::kIo, folder.string(), fmt::format("cannot make the folder: {}", error.message()));
  const std::string name = project_name(folder);
  std::vector<std::string> files{"train.toml", "main.cpp", "CMakeLists.txt", "README.md"};
  write(folder / files[0], toml_of(project, name));
  write(folder / files[1], program_of(project, name));
  write(folder / files[2], cmake_of(name));
  std::string picture;
  if (project_template == "digits") files.push_back(picture = write_digit(folder));
  write(folder / files[3], readme_of(project, name, picture));
  if (project_template == "csv") {
    write(folder / "data.csv", example_table());
    files.push_back("data.csv");
  } else if (project_template == "text") {
    write(folder / "text.txt", kSonnets);
    files.push_back("text.txt");
  } else if (project_template == "images") {
    write_pictures(folder / "pictures");
    files.push_back("pictures/");
  }
  return files;
}

}  // namespace systole::cli
