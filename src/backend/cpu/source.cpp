#include "backend/cpu/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/jit.h"
#include "backend/cpu/memory.h"
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
  std::string threads{};  // of a group, as the source writes it; empty: any number
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
  if (is_portable) return has_word(s, "s_entry") ? std::optional(Form::point) : std::nullopt;
  if (has_word(s, "static") || !has_word(s, "void")) return std::nullopt;
  return ends_with_range(s) ? Form::range : Form::once;
}

// What stands in the parentheses of s_threads(…) before the kernel's name.
std::string threads_of(const std::string& source, const SourceSignature& s) {
  constexpr std::string_view kMark = "s_threads(";
  const std::size_t at = source.find(kMark, s.begin);
  if (at == std::string::npos || at > s.end) return {};
  std::size_t end = at + kMark.size();
  for (int depth = 1; end < s.end; ++end)
    if ((depth += source[end] == '(' ? 1 : source[end] == ')' ? -1 : 0) == 0) break;
  return source.substr(at + kMark.size(), end - at - kMark.size());
}

// The kernels of a preprocessed source, without what the generated function adds to their parameters. In C, a
// name that was asked for is the only one, and may be called once.
std::vector<CpuSignature> kernels_of(const std::string& source, bool is_portable, const std::string& asked) {
  std::vector<CpuSignature> found;
  for (SourceSignature& s : runtime::source_signatures(source)) {
    const std::optional<Form> form = form_of(s, is_portable);
    if (!form) continue;
    if (*form != Form::point && (asked.empty() ? *form == Form::once : s.name != asked)) continue;
    if (*form == Form::range) s.parameters.resize(s.parameters.size() - 2);
    std::string threads = is_portable ? threads_of(source, s) : std::string();
    found.push_back({std::move(s), *form, std::move(threads)});
  }
  return found;
}

// The portable source with the place of the point as one more parameter wherever a kernel is defined or
// declared; lines stay where they are.
std::string with_places(std::string source) {
  const std::vector<runtime::SourceToken> tokens = runtime::source_tokens(source);
  std::vector<std::pair<std::size_t, std::size_t>> lists;  // where the parentheses are
  for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].text != "s_entry" || tokens[i + 2].text != "(") continue;
    std::size_t close = i + 3;
    for (int depth = 1; close < tokens.size(); ++close)
      if ((depth += tokens[close].text == "(" ? 1 : tokens[close].text == ")" ? -1 : 0) == 0) break;
    if (close == tokens.size()) break;
    lists.emplace_back(tokens[i + 2].offset, tokens[close].offset);
  }
  for (auto list = lists.rbegin(); list != lists.rend(); ++list) {
    const auto [open, end] = *list;
    const std::vector<runtime::SourceToken> inside =
        runtime::source_tokens(std::string_view(source).substr(open + 1, end - open - 1));
    if (inside.empty() || (inside.size() == 1 && inside[0].text == "void"))
      source.replace(open + 1, end - open - 1, "const s_place s_at");
    else
      source.insert(end, ", const s_place s_at");
  }
  return source;
}

// Whether every brace is closed: what stands behind such a source is outside of its functions.
bool is_closed(std::string_view source) {
  int depth = 0;
  for (const runtime::SourceToken& token : runtime::source_tokens(source))
    if ((depth += token.text == "{" ? 1 : token.text == "}" ? -1 : 0) < 0) return false;
  return depth == 0;
}

std::string call_name(const std::string& kernel) { return "s_call_" + kernel; }
std::string facts_name(const std::string& kernel) { return "s_facts_" + kernel; }

// A generated function's text. Its names begin with s_: the others are the program's.
std::string function_text(const std::string& name, std::string_view body) {
  return fmt::format("void {}(void* const* s_list, long long s_begin, long long s_end) {{\n{}}}\n", name,
                     body);
}

constexpr const char* kThroughGroups = R"c(  const long long* const s_size = (const long long*)s_list[{}];
  const long long s_gx = s_size[0], s_gy = s_size[1], s_gz = s_size[2];
  const long long s_bx = s_size[3], s_by = s_size[4], s_bz = s_size[5];
  for (long long s_g = s_begin; s_g < s_end; ++s_g)
    for (long long s_z = 0; s_z < s_bz; ++s_z)
      for (long long s_y = 0; s_y < s_by; ++s_y)
        for (long long s_x = 0; s_x < s_bx; ++s_x) {{
          const s_place s_here = {{
              {{s_g % s_gx, s_g / s_gx % s_gy, s_g / s_gx / s_gy}}, {{s_x, s_y, s_z}}, {{s_gx, s_gy, s_gz}},
              {{s_bx, s_by, s_bz}}}};
          {}({}{}s_here);
        }}
)c";

// The number of a dtype from 1, as the compiler knows the type; 0: no number.
std::string dtype_choice() {
  constexpr std::pair<const char*, DType> kTypes[] = {{"float", DType::f32},
                                                      {"double", DType::f64},
                                                      {"_Bool", DType::boolean},
                                                      {"signed char", DType::i8},
                                                      {"unsigned char", DType::u8},
                                                      {"short", DType::i16},
                                                      {"unsigned short", DType::u16},
                                                      {"int", DType::i32},
                                                      {"unsigned", DType::u32},
                                                      {"long", DType::i64},
                                                      {"unsigned long", DType::u64},
                                                      {"long long", DType::i64},
                                                      {"unsigned long long", DType::u64}};
  std::string text = "#define s_dtype(x) _Generic((x)";
  for (const auto& [type, dtype] : kTypes) text += fmt::format(", {}: {}", type, static_cast<int>(dtype) + 1);
  return text + fmt::format(", char: (char)-1 < 0 ? {} : {}, default: 0)\n", static_cast<int>(DType::i8) + 1,
                            static_cast<int>(DType::u8) + 1);
}

// What only the compiler knows: the threads of a group (0: any number), then of each parameter the size of
// the number or the array's elements, and its dtype.
std::string facts_of(const CpuSignature& kernel) {
  std::string text = fmt::format("  long long* const s_facts = (long long*)s_list[0];\n  s_facts[0] = {};\n",
                                 kernel.threads.empty() ? "0" : kernel.threads);
  std::size_t at = 1;
  for (const SourceParameter& p : kernel.text.parameters) {
    const bool is_array = p.kind == SourceParameter::Kind::array;
    const std::string element = fmt::format("*({}{})0", p.type, is_array ? "" : "*");
    const bool is_void = p.type == "void*" || p.type == "const void*";
    text += fmt::format("  s_facts[{}] = {};\n  s_facts[{}] = {};\n", at,
                        is_void ? "0" : fmt::format("sizeof({})", element), at + 1,
                        is_void ? "0" : fmt::format("s_dtype({})", element));
    at += 2;
  }
  return text;
}

// The functions that take a list: of pointers to arrays and numbers, and the sizes of grid and block; and
// those that tell facts. Of kernels whose parameters are all known.
std::string calls_of(const std::vector<CpuSignature>& kernels) {
  std::string text = "\n#line 1 \"calls\"\n" + dtype_choice();
  for (const CpuSignature& kernel : kernels) {
    const SourceSignature& s = kernel.text;
    if (!s.is_plain) continue;
    std::string list;
    for (std::size_t i = 0; i < s.parameters.size(); ++i) {
      const SourceParameter& p = s.parameters[i];
      const bool is_array = p.kind == SourceParameter::Kind::array;
      list += list.empty() ? "" : ", ";
      list += is_array ? fmt::format("({})s_list[{}]", p.type, i)
                       : fmt::format("*(const {}*)s_list[{}]", p.type, i);
    }
    const char* const comma = list.empty() ? "" : ", ";
    std::string body;
    switch (kernel.form) {
      case Form::range: body = fmt::format("  {}({}{}s_begin, s_end);\n", s.name, list, comma); break;
      case Form::once: body = fmt::format("  {}({});\n", s.name, list); break;
      case Form::point:
        body = fmt::format(fmt::runtime(kThroughGroups), s.parameters.size(), s.name, list, comma);
        break;
    }
    text += function_text(facts_name(s.name), facts_of(kernel)) + function_text(call_name(s.name), body);
  }
  return text;
}

// Room for vectors of any size, which are read whole.
struct alignas(kAlignment) Block {
  std::byte bytes[kAlignment];
};

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
    std::vector<long long> facts(1 + 2 * parameters_.size());
    void* const list[] = {facts.data()};
    library_->find(facts_name(name_))(list, 0, 0);
    threads_ = facts[0];
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      SourceParameter& p = parameters_[i];
      if (p.kind == SourceParameter::Kind::number) p.bytes = static_cast<std::size_t>(facts[1 + 2 * i]);
      if (const long long dtype = facts[2 + 2 * i]; dtype > 0) {
        p.dtype = static_cast<DType>(dtype - 1);
        p.lanes = 1;
      }
    }
  }

  const std::vector<SourceParameter>& parameters() const override { return parameters_; }
  std::optional<Size3> block() const override {
    return threads_ > 0 ? std::optional<Size3>(threads_) : std::nullopt;
  }

  void launch(const Launch& launch, std::span<const SourceArgument> arguments) const override {
    const timeline::Span span("kernel", name_, R"({"device":"cpu"})");
    const Size3 &grid = launch.grid, &block = launch.block;
    if (launch.shared_bytes > 0)
      throw Error(ErrorKind::kUnsupported, fmt::format("kernel {} on {}", name_, kDevice),
                  "a processor has no memory of groups: shared_bytes is for other devices");
    if (threads_ > 0 && block != Size3(threads_))
      throw Error(ErrorKind::kInvalidArgument, fmt::format("kernel {} on {}", name_, kDevice),
                  "the kernel is compiled for blocks of another size", fmt::format("{}×1×1", threads_),
                  runtime::to_string(block));
    std::array<long long, 6> sizes = {grid.x, grid.y, grid.z, block.x, block.y, block.z};
    std::vector<void*> list;
    list.reserve(arguments.size() + 1);
    std::vector<std::vector<Block>> vectors;
    const auto place_of = [&](std::span<const std::byte> number) -> void* {
      if (number.size() <= 16) return const_cast<std::byte*>(number.data());  // it is only read
      std::vector<Block>& place = vectors.emplace_back((number.size() - 1) / sizeof(Block) + 1);
      std::memcpy(place.data(), number.data(), number.size());
      return place.data();
    };
    for (const SourceArgument& x : arguments)
      list.push_back(x.array.buffer != nullptr ? memory_of(x.array)
                     : !x.number.empty()       ? place_of(x.number)
                                               : x.memory);
    list.push_back(sizes.data());
    const std::int64_t groups = grid.x * grid.y * grid.z, threads = groups * block.x * block.y * block.z;
    const Run run{function_, list.data()};
    switch (form_) {
      case Form::once: function_(list.data(), 0, 0); break;
      case Form::point: parallel_for(groups, thread_count(), run_part, &run); break;
      case Form::range:
        parallel_for(launch.items > 0 ? launch.items : threads, thread_count(), run_part, &run);
        break;
    }
  }

 private:
  const std::shared_ptr<const Library> library_;
  const std::string name_;
  const Form form_;
  const KernelFunction function_;
  std::vector<SourceParameter> parameters_;
  std::int64_t threads_ = 0;  // of a group; 0: any number
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
  const std::string mark = fmt::format("# 1 \"{}\"", runtime::source_name(options));
  std::vector<CpuSignature> kernels;
  const auto rewritten = [&](std::string text) {
    const std::size_t begin = std::min(text.find(mark), text.size());  // behind what stands before the source
    kernels = kernels_of(text.substr(begin), is_portable, asked);
    const std::string own = is_portable ? with_places(text.substr(begin)) : text.substr(begin);
    // The compiler's words of a brace that lacks are of the program's lines when nothing of ours follows.
    return text.substr(0, begin) + own + (is_closed(own) ? calls_of(kernels) : std::string());
  };
  std::shared_ptr<const Library> library;
  try {
    library = compile_source(
        runtime::source_head(codegen::Dialect::c, is_portable, options, source) + source + "\n",
        options.flags.c, rewritten);
  } catch (const Error& error) {
    // What it refuses of ours would be a bug; a program's is a mistake.
    if (error.kind() != ErrorKind::kInternal) throw;
    const std::string& words = error.message();  // "… refused a generated kernel: …"
    runtime::refuse_source(kDevice, source, options,
                           words.substr(std::min(words.find(": ") + 2, words.size())));
  }
  if (library == nullptr) throw Error(ErrorKind::kUnsupported, where, kernels_in_words());
  // Only now: for a source that is wrong, the compiler's words are better.
  for (const CpuSignature& k : kernels)
    if (!k.text.is_plain && (asked.empty() || k.text.name == asked))
      throw Error(ErrorKind::kUnsupported, fmt::format("kernel {} on {}", k.text.name, kDevice),
                  "a parameter has a form that is not known",
                  "numbers, structs and pointers to them, with names");
  std::erase_if(kernels, [](const CpuSignature& k) { return !k.text.is_plain; });
  return std::make_shared<CpuProgram>(std::move(library), std::move(kernels));
}

}  // namespace

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options) {
  return build(source, is_portable, options, {});
}

std::shared_ptr<const runtime::SourceCall> source_call(const lower::Step& step) {
  try {
    return runtime::source_call(step, codegen::Dialect::c,
                                [](const runtime::NamedSource& source, const SourceOptions& options) {
                                  return build(source.text, source.is_portable, options, source.name);
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
    if (call.zeroes && slot.is_result && slot.bytes > 0) std::memset(argument.memory, 0, slot.bytes);
  }
  if (call.launch.grid.x > 0) call.kernel->launch(call.launch, arguments);
}

}  // namespace systole::cpu
