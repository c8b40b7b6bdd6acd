#include "backend/cpu/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
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

// How a kernel is called: on a range of points, on a point, or once.
enum class Form { range, point, once };

struct CpuSignature {
  SourceSignature text;
  Form form;
};

bool has_word(const SourceSignature& s, std::string_view word) {
  return std::find(s.before.begin(), s.before.end(), word) != s.before.end();
}

bool ends_with_range(const SourceSignature& s) {
  const std::size_t n = s.parameters.size();
  const auto is_bound = [&](std::size_t i, std::string_view name) {
    return s.parameters[i].name == name && s.parameters[i].dtype == DType::i64 &&
           s.parameters[i].kind == SourceParameter::Kind::number;
  };
  return n >= 2 && is_bound(n - 2, "begin") && is_bound(n - 1, "end");
}

std::optional<Form> form_of(const SourceSignature& s, bool is_portable) {
  if (is_portable)
    return has_word(s, "S_ENTRY") || has_word(s, "S_KERNEL") ? std::optional(Form::point) : std::nullopt;
  if (has_word(s, "static") || !has_word(s, "void")) return std::nullopt;
  return ends_with_range(s) ? Form::range : Form::once;
}

// The kernels of a source, without what the generated function adds to their parameters. What is called once
// is one only when its name was asked for.
std::vector<CpuSignature> kernels_of(const std::string& source, bool is_portable, const std::string& asked) {
  std::vector<CpuSignature> found;
  for (SourceSignature& s : runtime::source_signatures(source)) {
    const std::optional<Form> form = form_of(s, is_portable);
    if (!form || (asked.empty() ? *form == Form::once : s.name != asked)) continue;
    if (!s.is_plain)
      throw Error(ErrorKind::kUnsupported, fmt::format("kernel {} on {}", s.name, kDevice),
                  "a parameter has a form that is not known",
                  "numbers, structs and pointers to them, with names");
    if (*form == Form::range) s.parameters.resize(s.parameters.size() - 2);
    found.push_back({std::move(s), *form});
  }
  return found;
}

// The portable source with the place of the point as one more parameter; lines stay where they are.
std::string with_places(std::string source, const std::vector<CpuSignature>& kernels) {
  for (auto k = kernels.rbegin(); k != kernels.rend(); ++k) {
    const std::size_t end = k->text.end, open = source.rfind('(', end);
    if (k->form != Form::point) continue;
    if (k->text.parameters.empty())
      source.replace(open + 1, end - open - 1, "const s_place s_at");
    else
      source.insert(end, ", const s_place s_at");
  }
  return source;
}

std::string call_name(const std::string& kernel) { return "s_call_" + kernel; }
std::string sizes_name(const std::string& kernel) { return "s_sizes_" + kernel; }

// A generated function's text: what it does with its arguments as a list `a`.
std::string function_text(const std::string& name, std::string_view body) {
  return fmt::format("void {}(void* const* a, long long begin, long long end) {{\n{}}}\n", name, body);
}

constexpr const char* kThroughGroups = R"c(  const long long* const size = (const long long*)a[{}];
  const long long gx = size[0], gy = size[1], gz = size[2], bx = size[3], by = size[4], bz = size[5];
  for (long long g = begin; g < end; ++g)
    for (long long z = 0; z < bz; ++z)
      for (long long y = 0; y < by; ++y)
        for (long long x = 0; x < bx; ++x) {{
          const s_place at = {{
              {{g % gx, g / gx % gy, g / gx / gy}}, {{x, y, z}}, {{gx, gy, gz}}, {{bx, by, bz}}}};
          {}({}{}at);
        }}
)c";

// The functions that take a list: of pointers to arrays and numbers, and the sizes of grid and block.
// Another tells the sizes of numbers.
std::string calls_of(const std::vector<CpuSignature>& kernels) {
  std::string text = "\n#line 1 \"calls\"\n";
  for (const auto& [s, form] : kernels) {
    std::string list, sizes;
    for (std::size_t i = 0; i < s.parameters.size(); ++i) {
      const SourceParameter& p = s.parameters[i];
      const bool is_array = p.kind == SourceParameter::Kind::array;
      list += list.empty() ? "" : ", ";
      list += is_array ? fmt::format("({})a[{}]", p.type, i) : fmt::format("*(const {}*)a[{}]", p.type, i);
      sizes += fmt::format("  ((long long*)a[0])[{}] = sizeof({});\n", i, p.type);
    }
    const char* const comma = list.empty() ? "" : ", ";
    std::string body;
    switch (form) {
      case Form::range: body = fmt::format("  {}({}{}begin, end);\n", s.name, list, comma); break;
      case Form::once: body = fmt::format("  {}({});\n", s.name, list); break;
      case Form::point:
        body = fmt::format(fmt::runtime(kThroughGroups), s.parameters.size(), s.name, list, comma);
        break;
    }
    text += function_text(sizes_name(s.name), sizes) + function_text(call_name(s.name), body);
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
  CpuKernel(std::shared_ptr<const Library> library, const CpuSignature& signature)
      : library_(std::move(library)),
        name_(signature.text.name),
        form_(signature.form),
        function_(library_->find(call_name(name_))),
        parameters_(signature.text.parameters) {
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
    for (const SourceArgument& x : arguments)
      list.push_back(x.buffer != nullptr ? memory_of(*x.buffer)
                     : !x.number.empty() ? const_cast<std::byte*>(x.number.data())
                                         : x.memory);
    list.push_back(sizes.data());
    const std::int64_t groups = grid.x * grid.y * grid.z;
    const Run run{function_, list.data()};
    switch (form_) {
      case Form::once: function_(list.data(), 0, 0); break;
      case Form::point: parallel_for(groups, thread_count(), run_part, &run); break;
      case Form::range:
        parallel_for(groups * block.x * block.y * block.z, thread_count(), run_part, &run);
        break;
    }
  }

 private:
  const std::shared_ptr<const Library> library_;
  const std::string name_;
  const Form form_;
  const KernelFunction function_;
  std::vector<SourceParameter> parameters_;
};

class CpuProgram final : public runtime::SourceProgram {
 public:
  CpuProgram(std::shared_ptr<const Library> library, std::vector<CpuSignature> kernels)
      : library_(std::move(library)), kernels_(std::move(kernels)) {
    for (const CpuSignature& s : kernels_) names_.push_back(s.text.name);
  }
  const std::vector<std::string>& names() const override { return names_; }
  const std::string& log() const override { return log_; }
  std::shared_ptr<const runtime::SourceKernel> kernel(const std::string& name) const override {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return std::make_shared<CpuKernel>(library_, kernels_[static_cast<std::size_t>(found - names_.begin())]);
  }

 private:
  const std::shared_ptr<const Library> library_;
  const std::vector<CpuSignature> kernels_;
  std::vector<std::string> names_;
  const std::string log_;  // its compiler keeps warnings to itself
};

std::shared_ptr<const runtime::SourceProgram> build(const std::string& source, bool is_portable,
                                                    const SourceOptions& options, const std::string& asked) {
  const timeline::Span span("compile", "kernel source");
  const std::string where = fmt::format("kernel source on {}", kDevice);
  if (!options.flags.empty())
    throw Error(ErrorKind::kUnsupported, where, "a processor's compiler takes no flags here: use defines", {},
                options.flags);
  std::vector<CpuSignature> kernels = kernels_of(source, is_portable, asked);
  const std::string text = runtime::source_head(codegen::Dialect::c, is_portable, options) +
                           with_places(source, kernels) + calls_of(kernels);
  std::shared_ptr<const Library> library;
  try {
    library = compile_kernels(text);
  } catch (const Error& error) {
    // What it refuses of ours would be a bug; a program's is a mistake.
    if (error.kind() != ErrorKind::kInternal) throw;
    const std::string& words = error.message();  // "… refused a generated kernel: …"
    runtime::refuse_source(kDevice, source, words.substr(std::min(words.find(": ") + 2, words.size())));
  }
  if (library == nullptr) throw Error(ErrorKind::kUnsupported, where, kernels_in_words());
  return std::make_shared<CpuProgram>(std::move(library), std::move(kernels));
}

}  // namespace

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options) {
  return build(source, is_portable, options, {});
}

std::shared_ptr<const runtime::SourceCall> source_call(const lower::Step& step) {
  try {
    return runtime::source_call(step, codegen::Dialect::c, [](const ir::KernelAttrs& attrs) {
      return runtime::kernel_named("kernel_call", *build(attrs.c, false, {}, attrs.name), attrs.name);
    });
  } catch (const Error& error) {
    // Without a compiler the body is evaluated.
    const bool has_body = !step.region.graph.node(step.region.anchor).graphs.empty();
    if (error.kind() != ErrorKind::kUnsupported || !has_body) throw;
    return nullptr;
  }
}

void run(const runtime::SourceCall& call, std::span<std::byte* const> inputs,
         std::span<std::byte* const> outputs) {
  std::vector<SourceArgument> arguments;
  std::vector<std::unique_ptr<std::byte[]>> unwanted;
  for (const runtime::SourceCall::Slot& slot : call.slots) {
    SourceArgument& argument = arguments.emplace_back();
    if (slot.position >= 0) {
      argument.memory = (slot.is_result ? outputs : inputs)[static_cast<std::size_t>(slot.position)];
    } else {
      unwanted.push_back(std::make_unique<std::byte[]>(slot.bytes));
      argument.memory = unwanted.back().get();
    }
  }
  call.kernel->launch(call.launch, arguments);
}

}  // namespace systole::cpu
