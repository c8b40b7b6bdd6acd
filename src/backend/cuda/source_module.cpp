#include "backend/cuda/source_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "runtime/disk_cache.h"
#include "runtime/source_kernels.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

// What the compiler made of a source, as it is kept on disk: symbols and sizes in a line of text each.
std::string to_entry(const NvrtcResult& made) {
  return fmt::format("{}\n{}\n{}{}", fmt::join(made.symbols, " "), made.log.size(), made.log, made.code);
}

std::optional<NvrtcResult> from_entry(const std::string& entry) {
  const std::size_t first = entry.find('\n'), second = entry.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  std::size_t log = 0;
  const char* const end = entry.data() + second;
  if (std::from_chars(entry.data() + first + 1, end, log).ptr != end || log > entry.size() - second - 1)
    return std::nullopt;
  NvrtcResult made;
  for (std::size_t begin = 0; begin < first;) {
    const std::size_t stop = std::min(entry.find(' ', begin), first);
    made.symbols.push_back(entry.substr(begin, stop - begin));
    begin = stop + 1;
  }
  made.log = entry.substr(second + 1, log);
  made.code = entry.substr(second + 1 + log);
  return made;
}

std::shared_ptr<ModuleObject> load(const Device& device, const std::string& code) {
  LoadedModule module = nullptr;
  check(driver().cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
  return {module, [&device](LoadedModule m) {
            if (device.try_activate()) driver().cuModuleUnload(m);
          }};
}

// A macro of the program's reaches its own lines, and not the words of the portable language before them:
// flags -DNAME=VALUE become definitions that stand after those.
void define_after_words(SourceOptions& options) {
  std::erase_if(options.flags.cuda, [&](const std::string& flag) {
    if (!flag.starts_with("-D") || flag.size() == 2) return false;
    const std::size_t equals = std::min(flag.find('='), flag.size());
    options.defines.emplace_back(flag.substr(2, equals - 2),
                                 equals == flag.size() ? "1" : flag.substr(equals + 1));
    return true;
  });
}

bool reads_files(std::string_view text, const std::vector<std::string>& flags) {
  const auto names_files = [](const std::string& flag) {
    return flag.starts_with("-I") || flag.starts_with("--include-path") || flag.starts_with("-include") ||
           flag.starts_with("--pre-include");
  };
  return text.find("#include \"") != std::string_view::npos ||
         std::any_of(flags.begin(), flags.end(), names_files);
}

// How a source is compiled, and where what comes of it is kept.
struct Compilation {
  std::string text;
  NvrtcOptions options;
  runtime::CacheKey key{"cuda"};
  std::optional<runtime::DiskCache> cache;
};
Compilation compilation_of(const Device& device, const Source& source,
                           const std::vector<std::string>& templates) {
  SourceOptions options = source.options;
  if (source.is_portable) define_after_words(options);
  Compilation c;
  c.text = runtime::source_head(codegen::Dialect::cuda, source.is_portable, options, source.text) +
           source.text + "\n";
  c.options = {.architecture = device.architecture(),
               .flags = options.flags.cuda,
               .file_name = runtime::source_name(source.options)};
  if (source.text.find("#include") != std::string::npos)
    if (const std::string folder = toolkit_headers(); !folder.empty())
      c.options.flags.push_back("-I" + folder);
  c.key.add("source").add(c.text).add(device.architecture()).add(nvrtc_version());
  for (const std::string& flag : c.options.flags) c.key.add(flag);
  c.key.add("templates");
  for (const std::string& name : templates) c.key.add(name);
  // Headers of the user's own may change without the text.
  if (!reads_files(source.text, options.flags.cuda)) c.cache = runtime::disk_cache();
  return c;
}

// Of the kernel s_types in machine code: what its parameters point to.
std::vector<std::string> types_of(const std::string& code) {
  std::vector<std::string> types;
  for (const Cubin::Kernel& kernel : read_cubin(code).kernels) {
    if (kernel.name != "s_types") continue;
    for (std::size_t begin = 0; begin < kernel.parameters.size();) {
      const std::size_t end = std::min(kernel.parameters.find('*', begin), kernel.parameters.size());
      types.push_back(kernel.parameters.substr(begin, end - begin));
      begin = end + 3;  // "*, "
    }
  }
  return types;
}

}  // namespace

runtime::Typedefs types_in(const Device& device, const Source& source,
                           const std::vector<std::string>& words) {
  runtime::Typedefs types;
  Source asked = source;
  asked.text += R"(
#line 1 "types"
template <class T, bool = sizeof(T) == 4> struct s_enum { typedef int type; };
template <class T> struct s_enum<T, false> { typedef __underlying_type(T) type; };
template <class T, bool = __is_enum(T)> struct s_plain { typedef T type; };
template <class T> struct s_plain<T, true> : s_enum<T> {};
__global__ void s_types()";
  for (const std::string& word : words) {
    asked.text += fmt::format("{}s_plain<{}>::type*", types.empty() ? "" : ", ", word);
    types[word] = "";
  }
  asked.text += ") {}";
  const Compilation c = compilation_of(device, asked, {});
  std::vector<std::string> answers;
  if (const std::optional<std::string> entry = c.cache ? c.cache->find(c.key) : std::nullopt)
    if (const std::optional<NvrtcResult> known = from_entry(*entry)) try {
        answers = types_of(known->code);
      } catch (const Error&) {  // damaged
        c.cache->remove(c.key);
      }
  if (answers.empty()) {
    const NvrtcResult made = compile_users_source(c.text, c.options);
    if (made.is_refused) return types;
    if (c.cache) c.cache->store(c.key, to_entry(made));
    answers = types_of(made.code);
  }
  for (std::size_t i = 0; i < words.size() && i < answers.size(); ++i) types[words[i]] = answers[i];
  return types;
}

LoadedSource::LoadedSource(const Device& device, const Source& source,
                           const std::vector<std::string>& templates)
    : device_(device), order_(device, 0, 0, "kernels") {
  device.activate();
  const Compilation c = compilation_of(device, source, templates);
  const std::optional<runtime::DiskCache>& cache = c.cache;
  if (const std::optional<std::string> entry = cache ? cache->find(c.key) : std::nullopt)
    if (std::optional<NvrtcResult> known = from_entry(*entry)) try {
        module_ = load(device, known->code);
        made_ = *std::move(known);
      } catch (const Error&) {  // damaged, or of another driver
        cache->remove(c.key);
        if (device.is_lost()) throw;
      }
  if (module_ == nullptr) {
    made_ = compile_users_source(c.text, c.options, templates);
    if (made_.is_refused) runtime::refuse_source(source.where, source.text, source.options, made_.log);
    module_ = load(device, made_.code);
    if (cache) cache->store(c.key, to_entry(made_));
  }
  cubin_ = read_cubin(made_.code);
  made_.code.clear();
  const auto is_hidden = [&](const Cubin::Variable& variable) {
    Address address = 0;
    std::size_t bytes = 0;
    const Status status =
        driver().cuModuleGetGlobal(&address, &bytes, module_.get(), variable.symbol.c_str());
    if (status == kErrorNotFound) return true;
    check(status, "cuModuleGetGlobal");
    variables_.push_back(std::make_unique<Memory>(device, address, static_cast<std::int64_t>(bytes),
                                                  "a variable of a module"));
    return false;
  };
  std::erase_if(cubin_.variables, is_hidden);
}

LoadedSource::~LoadedSource() {
  if (device_.try_activate()) try {
      order_.wait_until_unused();
      for (const auto& variable : variables_) variable->wait_until_unused();
    } catch (const Error&) {  // the context is lost: nothing runs
    }
}

Function LoadedSource::function(const std::string& symbol) const {
  Function function = nullptr;
  check(driver().cuModuleGetFunction(&function, module_.get(), symbol.c_str()), "cuModuleGetFunction");
  return function;
}

std::unique_lock<std::mutex> LoadedSource::in_order() const {
  return variables_.empty() ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_);
}

void LoadedSource::before_launch(Stream stream) const {
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (cubin_.variables[i].is_constant)
      variables_[i]->before_reading(stream);
    else
      variables_[i]->before_writing(stream);
}

void LoadedSource::after_launch(const MomentRef& moment) const {
  order_.was_read(moment);
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (cubin_.variables[i].is_constant)
      variables_[i]->was_read(moment);
    else
      variables_[i]->was_written(moment);
}

}  // namespace systole::cuda
