#include "backend/cpu/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/cpu/jit.h"
#include "base/parallel.h"
#include "runtime/source_text.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cpu {

namespace {

using runtime::SourceArgument;
using runtime::SourceParameter;
using runtime::SourceSignature;

constexpr const char* kDevice = "cpu";

bool has_word(const SourceSignature& s, std::string_view word) {
  return std::find(s.before.begin(), s.before.end(), word) != s.before.end();
}

bool is_range(const SourceSignature& s) {
  const std::size_t n = s.parameters.size();
  if (n < 2) return false;
  const auto is_bound = [&](std::size_t i, std::string_view name) {
    return s.parameters[i].name == name && s.parameters[i].dtype == DType::i64 &&
           s.parameters[i].kind == SourceParameter::Kind::number;
  };
  return is_bound(n - 2, "begin") && is_bound(n - 1, "end");
}

// The kernels of a source, without what the generated function adds to their parameters.
std::vector<SourceSignature> kernels_of(const std::string& source, bool is_portable) {
  std::vector<SourceSignature> found;
  for (SourceSignature& s : runtime::source_signatures(source)) {
    if (is_portable ? !has_word(s, "S_ENTRY") && !has_word(s, "S_KERNEL")
                    : has_word(s, "static") || !has_word(s, "void") || !is_range(s))
      continue;
    if (!s.is_plain)
      throw Error(ErrorKind::kUnsupported, fmt::format("kernel {} on {}", s.name, kDevice),
                  "a parameter has a form that is not known",
                  "numbers, structs and pointers to them, with names");
    if (!is_portable) s.parameters.resize(s.parameters.size() - 2);
    found.push_back(std::move(s));
  }
  return found;
}

// The portable source with the place of the point as one more parameter; lines stay where they are.
std::string with_places(std::string source, const std::vector<SourceSignature>& kernels) {
  for (auto s = kernels.rbegin(); s != kernels.rend(); ++s) {
    const std::size_t open = source.rfind('(', s->end);
    if (s->parameters.empty())
      source.replace(open + 1, s->end - open - 1, "const s_place s_at");
    else
      source.insert(s->end, ", const s_place s_at");
  }
  return source;
}

std::string call_name(const std::string& kernel) { return "s_call_" + kernel; }
std::string sizes_name(const std::string& kernel) { return "s_sizes_" + kernel; }

// The functions that take a list: of pointers to arrays and numbers, behind them for a portable kernel the
// sizes of grid and block. Another tells the sizes of numbers.
std::string calls_of(const std::vector<SourceSignature>& kernels, bool is_portable) {
  std::string text = "\n#line 1 \"calls\"\n";
  for (const SourceSignature& s : kernels) {
    std::string arguments, sizes;
    for (std::size_t i = 0; i < s.parameters.size(); ++i) {
      const SourceParameter& p = s.parameters[i];
      const bool is_array = p.kind == SourceParameter::Kind::array;
      arguments +=
          is_array ? fmt::format("({})a[{}], ", p.type, i) : fmt::format("*(const {}*)a[{}], ", p.type, i);
      sizes += fmt::format("  ((long long*)a[0])[{}] = sizeof({});\n", i, p.type);
    }
    text += fmt::format("void {}(void* const* a, long long begin, long long end) {{\n{}}}\n",
                        sizes_name(s.name), sizes);
    if (!is_portable) {
      text +=
          fmt::format("void {}(void* const* a, long long begin, long long end) {{\n  {}({}begin, end);\n}}\n",
                      call_name(s.name), s.name, arguments);
      continue;
    }
    text += fmt::format(R"c(void {}(void* const* a, long long begin, long long end) {{
  const long long* const size = (const long long*)a[{}];
  const long long gx = size[0], gy = size[1], gz = size[2], bx = size[3], by = size[4], bz = size[5];
  for (long long g = begin; g < end; ++g)
    for (long long z = 0; z < bz; ++z)
      for (long long y = 0; y < by; ++y)
        for (long long x = 0; x < bx; ++x) {{
          const s_place at = {{
              {{g % gx, g / gx % gy, g / gx / gy}}, {{x, y, z}}, {{gx, gy, gz}}, {{bx, by, bz}}}};
          {}({}at);
        }}
}}
)c",
                        call_name(s.name), s.parameters.size(), s.name, arguments);
  }
  return text;
}

struct Run {
  KernelFunction function;
  void* const* arguments;
};

void run_part(const void* context, std::int64_t begin, std::int64_t end) {
  const auto& run = *static_cast<const Run*>(context);
  run.function(run.arguments, begin, end);
}

class CpuKernel final : public runtime::SourceKernel {
 public:
  CpuKernel(std::shared_ptr<const Library> library, const SourceSignature& signature, bool is_portable)
      : library_(std::move(library)),
        name_(signature.name),
        is_portable_(is_portable),
        function_(library_->find(call_name(name_))),
        parameters_(signature.parameters) {
    std::vector<long long> sizes(parameters_.size());
    void* const list[] = {sizes.data()};
    library_->find(sizes_name(name_))(list, 0, 0);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (parameters_[i].kind == SourceParameter::Kind::number)
        parameters_[i].bytes = static_cast<std::size_t>(sizes[i]);
  }

  const std::vector<SourceParameter>& parameters() const override { return parameters_; }

  void launch(const Launch& launch, std::span<const SourceArgument> arguments) const override {
    const timeline::Span span("kernel", name_);
    if (launch.shared_bytes > 0)
      throw Error(ErrorKind::kUnsupported, fmt::format("kernel {} on {}", name_, kDevice),
                  "a processor has no memory of groups: shared_bytes is for other devices");
    const Size3 &grid = launch.grid, &block = launch.block;
    std::array<long long, 6> sizes = {grid.x, grid.y, grid.z, block.x, block.y, block.z};
    std::vector<void*> list;
    list.reserve(arguments.size() + 1);
    // Numbers are only read.
    for (const SourceArgument& a : arguments)
      list.push_back(a.buffer != nullptr ? static_cast<void*>(memory_of(*a.buffer))
                                         : const_cast<std::byte*>(a.number.data()));
    list.push_back(sizes.data());
    const std::int64_t groups = grid.x * grid.y * grid.z;
    const Run run{function_, list.data()};
    parallel_for(is_portable_ ? groups : groups * block.x * block.y * block.z, thread_count(), run_part,
                 &run);
  }

 private:
  const std::shared_ptr<const Library> library_;
  const std::string name_;
  const bool is_portable_;
  const KernelFunction function_;
  std::vector<SourceParameter> parameters_;
};

class CpuProgram final : public runtime::SourceProgram {
 public:
  CpuProgram(std::shared_ptr<const Library> library, std::vector<SourceSignature> kernels, bool is_portable)
      : library_(std::move(library)), kernels_(std::move(kernels)), is_portable_(is_portable) {
    for (const SourceSignature& s : kernels_) names_.push_back(s.name);
  }
  const std::vector<std::string>& names() const override { return names_; }
  const std::string& log() const override { return log_; }
  std::shared_ptr<const runtime::SourceKernel> kernel(const std::string& name) const override {
    const auto index =
        static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
    return std::make_shared<CpuKernel>(library_, kernels_[index], is_portable_);
  }

 private:
  const std::shared_ptr<const Library> library_;
  const std::vector<SourceSignature> kernels_;
  const bool is_portable_;
  std::vector<std::string> names_;
  const std::string log_;  // its compiler keeps warnings to itself
};

}  // namespace

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options) {
  const timeline::Span span("compile", "kernel source");
  const std::string where = fmt::format("kernel source on {}", kDevice);
  if (!options.flags.empty())
    throw Error(ErrorKind::kUnsupported, where, "a processor's compiler takes no flags here: use defines", {},
                options.flags);
  std::vector<SourceSignature> kernels = kernels_of(source, is_portable);
  const std::string text = runtime::source_head(codegen::Dialect::c, is_portable, options) +
                           (is_portable ? with_places(source, kernels) : source) +
                           calls_of(kernels, is_portable);
  std::shared_ptr<const Library> library;
  try {
    library = compile_kernels(text);
  } catch (const Error& error) {
    // The compiler's word for what it refuses; a source of ours would be a bug, a program's is a mistake.
    if (error.kind() != ErrorKind::kInternal) throw;
    const std::string& words = error.message();  // "… refused a generated kernel: …"
    runtime::refuse_source(kDevice, source, words.substr(std::min(words.find(": ") + 2, words.size())));
  }
  if (library == nullptr) throw Error(ErrorKind::kUnsupported, where, kernels_in_words());
  return std::make_shared<CpuProgram>(std::move(library), std::move(kernels), is_portable);
}

}  // namespace systole::cpu
