#pragma once

// What oneDNN is called for, of odd shapes: products, convolutions, means over windows, and quantised layers
// with the work behind their sums. Its code is made at run time, so that no sanitizer sees what it reads:
// every operand, result and workspace lies between pages that may not be touched, flush with the one behind
// it or the one before it. Numbers are small and whole, so sums are exact and must be those of the reference;
// means may be rounded.
//
// Cases run in a child, which may crash: the next child goes on behind the case that did. SYSTOLE_SEED sets
// the first case, SYSTOLE_CASES how many.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cost.h"
#include "backend/cpu/executor.h"
#include "backend/cpu/onednn.h"
#include "systole/base/error.h"
#include "systole/compile.h"
#include "systole/ops.h"

namespace systole::cpu::bounds {

using ir::Graph;
using ir::Value;

// Memory whose first or last byte has a page beside it that may not be touched.
class Guarded {
 public:
  Guarded(std::int64_t bytes, bool at_end) {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)),
                      size = static_cast<std::size_t>(bytes);
    const std::size_t inner = (size + page - 1) / page * page;
    bytes_ = inner + 2 * page;
    void* const all = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw Error(ErrorKind::kOutOfMemory, "mmap", "failed");
    begin_ = static_cast<std::byte*>(all);
    if (inner > 0 && ::mprotect(begin_ + page, inner, PROT_READ | PROT_WRITE) != 0)
      throw Error(ErrorKind::kOutOfMemory, "mprotect", "failed");
    data_ = begin_ + page + (at_end ? inner - size : 0);
  }
  ~Guarded() { ::munmap(begin_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_ = 0;
  std::byte *begin_ = nullptr, *data_ = nullptr;
};

enum Kind { kProduct, kConvolution, kMean, kLayer, kKinds };

struct Case {
  Kind kind = kProduct;
  Graph graph{"main"};
  std::string text;
  int threads = 1;
  double tolerance = 0;  // of what is rounded
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  bool one_in(int n) { return below(n) == 0; }
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_);
  }
  std::int64_t of(std::initializer_list<std::int64_t> list) {
    return list.begin()[below(static_cast<std::int64_t>(list.size()))];
  }

 private:
  std::mt19937_64 random_;
};

// An operand of a product. Now and then it is a part of a wider array, so that its rows lie far apart.
inline Value matrix(Draw& draw, Case& made, const char* name, Ints dims, DType dtype) {
  const std::int64_t axis = static_cast<std::int64_t>(dims.size()) - 1;
  const bool is_part = draw.one_in(4);
  const std::int64_t size = dims.back(), more = is_part ? draw.of({1, 7, 64, 4096}) : 0;
  const bool is_last = draw.one_in(2);
  dims.back() += more;
  const Value whole = made.graph.input(name, {dtype, Shape(std::vector<Dim>(dims.begin(), dims.end()))});
  made.text += fmt::format(" {}[{}]", name, fmt::join(dims, ","));
  if (!is_part) return whole;
  made.text += is_last ? " its last" : " its first";
  const std::int64_t start = is_last ? more : 0;
  return ops::slice_axis(whole, axis, start, start + size);
}

inline Case product(Draw& draw) {
  Case made;
  const bool is_f32 = !draw.one_in(4);
  const auto size = [&] {
    return draw.of(
        {1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 100, 127, 129, 255, 257});
  };
  const std::int64_t rows = size(), columns = size(), depth = size(),
                     batch = draw.one_in(4) ? draw.of({2, 3, 5}) : 1;
  const bool a_across = draw.one_in(3), b_across = draw.one_in(2);
  const DType first = is_f32 ? DType::f32 : draw.one_in(2) ? DType::u8 : DType::i8;
  made.text = fmt::format("product {}", is_f32 ? "f32" : first == DType::u8 ? "u8" : "i8");
  Ints a = a_across ? Ints{depth, rows} : Ints{rows, depth},
       b = b_across ? Ints{columns, depth} : Ints{depth, columns};
  Ints axes;
  if (batch > 1) a.insert(a.begin(), batch), b.insert(b.begin(), batch), axes = {0};
  const std::int64_t at = batch > 1 ? 1 : 0;
  const Value x = matrix(draw, made, "x", a, first),
              w = matrix(draw, made, "w", b, is_f32 ? DType::f32 : DType::i8);
  made.text += fmt::format(" contract {} {}", a_across ? 0 : 1, b_across ? 1 : 0);
  Value y = ops::dot_general(x, w, {at + (a_across ? 0 : 1)}, {at + (b_across ? 1 : 0)}, axes, axes,
                             is_f32 ? std::optional<DType>() : DType::i32);
  if (is_f32 && draw.one_in(3)) {
    const Value bias = made.graph.input("bias", {DType::f32, {columns}});
    y = ops::add(y, ops::broadcast(bias, y.shape(), {at + 1}));
    made.text += " bias";
  } else if (is_f32 && draw.one_in(3)) {
    y = ops::add(y, made.graph.input("added", y.type()));
    made.text += " added";
  }
  made.graph.output(y, "y");
  return made;
}

inline Case convolution(Draw& draw) {
  Case made;
  const bool is_f32 = !draw.one_in(5);
  const auto channels = [&] {
    return draw.of({1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64});
  };
  const std::int64_t batch = draw.of({1, 1, 2, 3}), kind = is_f32 ? draw.below(3) : 0;
  const std::int64_t groups = draw.one_in(4) ? draw.of({2, 3, 8, 16}) : 1;
  std::int64_t in = channels(), out = channels();
  if (groups > 1)
    in = draw.one_in(2) ? 1 : std::min<std::int64_t>(in, 8),
    out = draw.one_in(2) ? 1 : std::min<std::int64_t>(out, 8);
  const std::int64_t kh = draw.of({1, 1, 2, 3, 3, 4, 5, 7}), kw = draw.one_in(2) ? kh : draw.of({1, 2, 3, 5});
  ir::ConvolutionAttrs attrs;
  const std::int64_t layout = draw.below(3);
  attrs.layout = layout == 0 ? "b01f_01io->b01f" : layout == 1 ? "b01f_oi01->b01f" : "b01f_o01i->b01f";
  attrs.feature_groups = groups;
  attrs.strides = {draw.of({1, 1, 1, 2, 3}), draw.of({1, 1, 1, 2, 3})};
  attrs.pad_low = {draw.of({0, 1, 2}), draw.of({0, 1, 2})};
  attrs.pad_high = {draw.of({0, 1, 2}), draw.of({0, 1, 2})};
  if (draw.one_in(5)) attrs.kernel_dilation = {2, 2};
  const std::int64_t reach_h = attrs.kernel_dilation.empty() ? kh : 2 * kh - 1,
                     reach_w = attrs.kernel_dilation.empty() ? kw : 2 * kw - 1;
  const std::int64_t h = reach_h + draw.of({0, 1, 2, 3, 5, 9}), v = reach_w + draw.of({0, 1, 2, 3, 6, 14});
  const Shape image{batch, h, v, groups * in};
  const Shape kernel = layout == 0   ? Shape{kh, kw, in, groups * out}
                       : layout == 1 ? Shape{groups * out, in, kh, kw}
                                     : Shape{groups * out, kh, kw, in};
  const auto result = [&](std::size_t i, std::int64_t size, std::int64_t reach) {
    return (size + attrs.pad_low[i] + attrs.pad_high[i] - reach) / attrs.strides[i] + 1;
  };
  const Shape grad{batch, result(0, h, reach_h), result(1, v, reach_w), groups * out};
  const DType first = is_f32 ? DType::f32 : draw.one_in(2) ? DType::u8 : DType::i8;
  made.text = fmt::format("convolution {} {} {} image {} kernel {} groups {} strides {} pad {} {}{}",
                          kind == 0   ? "forward"
                          : kind == 1 ? "input_grad"
                                      : "weight_grad",
                          is_f32               ? "f32"
                          : first == DType::u8 ? "u8"
                                               : "i8",
                          attrs.layout, image.to_string(), kernel.to_string(), groups,
                          fmt::join(attrs.strides, ","), fmt::join(attrs.pad_low, ","),
                          fmt::join(attrs.pad_high, ","), attrs.kernel_dilation.empty() ? "" : " dilated");
  Graph& g = made.graph;
  if (kind == 1) {
    const Value dy = g.input("dy", {DType::f32, grad}), w = g.input("w", {DType::f32, kernel});
    g.output(ops::conv_input_grad(dy, w, image, attrs), "dx");
  } else if (kind == 2) {
    const Value dy = g.input("dy", {DType::f32, grad}), x = g.input("x", {DType::f32, image});
    g.output(ops::conv_weight_grad(dy, x, kernel, attrs), "dw");
  } else {
    if (!is_f32) attrs.dtype = DType::i32;
    const Value x = g.input("x", {first, image}), w = g.input("w", {is_f32 ? DType::f32 : DType::i8, kernel});
    Value y = g.add(ir::Op::convolution, {x, w}, attrs);
    if (is_f32 && draw.one_in(3)) {
      y = ops::add(y, ops::broadcast(g.input("bias", {DType::f32, {groups * out}}), y.shape(), {3}));
      made.text += " bias";
    }
    g.output(y, "y");
  }
  return made;
}

// Means over windows, which are all that layers take of the library.
inline Case pooling(Draw& draw) {
  Case made;
  made.tolerance = 1e-6;
  Ints window, strides, low, high;
  Shape image{draw.of({1, 1, 2, 3})};
  for (int i = 0; i < 2; ++i) {
    window.push_back(draw.of({1, 2, 2, 3, 3, 4, 5, 7}));
    strides.push_back(draw.of({1, 1, 2, 2, 3, 5}));
    low.push_back(draw.below(window.back()));
    high.push_back(draw.one_in(2) ? low.back() : 0);
    image.push_back(window.back() + draw.of({0, 1, 2, 3, 5, 9, 14}));
  }
  image.push_back(draw.of({1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65}));
  const bool counts_padding = draw.one_in(2);
  made.text = fmt::format("means of {} window {} strides {} pad {} {}{}", image.to_string(),
                          fmt::join(window, ","), fmt::join(strides, ","), fmt::join(low, ","),
                          fmt::join(high, ","), counts_padding ? "" : " of the image alone");
  const Value x = made.graph.input("x", {DType::f32, image});
  made.graph.output(ops::avg_pool(x, window, strides, low, high, counts_padding), "y");
  return made;
}

// A quantised layer: sums of bytes, and behind them factors, summands, bounds and rounding, in any choice.
inline Case int8_layer(Draw& draw) {
  Case made;
  Graph& g = made.graph;
  const DType first = draw.one_in(2) ? DType::u8 : DType::i8;
  const auto channels = [&] {
    return draw.of({1, 3, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 129});
  };
  const std::int64_t in = channels(), columns = channels();
  Value sums;
  if (draw.one_in(2)) {
    const std::int64_t rows = draw.of({2, 3, 7, 16, 17, 31, 33, 64, 129});
    made.text =
        fmt::format("layer {} [{},{}] by [{},{}]", first == DType::u8 ? "u8" : "i8", rows, in, in, columns);
    sums = ops::dot_general(g.input("x", {first, {rows, in}}), g.input("w", {DType::i8, {in, columns}}), {1},
                            {0}, {}, {}, DType::i32);
  } else {
    const std::int64_t window = draw.of({1, 1, 2, 3}), size = window + draw.of({0, 1, 2, 5, 9});
    ir::ConvolutionAttrs attrs;
    attrs.layout = "b01f_01io->b01f";
    attrs.strides = {draw.of({1, 1, 2}), draw.of({1, 1, 2})};
    attrs.pad_low = attrs.pad_high = {draw.of({0, 1}), draw.of({0, 1})};
    attrs.dtype = DType::i32;
    const Shape image{draw.of({1, 2, 3}), size, size, in}, kernel{window, window, in, columns};
    made.text = fmt::format("layer {} image {} kernel {} strides {} pad {}", first == DType::u8 ? "u8" : "i8",
                            image.to_string(), kernel.to_string(), fmt::join(attrs.strides, ","),
                            fmt::join(attrs.pad_low, ","));
    sums =
        g.add(ir::Op::convolution, {g.input("x", {first, image}), g.input("w", {DType::i8, kernel})}, attrs);
  }
  Value y = ops::convert(sums, DType::f32);
  const auto row = [&](const char* name) {
    return ops::broadcast(g.input(name, {DType::f32, {columns}}), y.shape(),
                          {static_cast<std::int64_t>(y.shape().rank()) - 1});
  };
  if (draw.one_in(2)) y = y * row("scale"), made.text += " scale";
  if (draw.one_in(3)) y = y * 0.25, made.text += " quarter";  // halves are rounded to even
  if (draw.one_in(2)) y = y + row("bias"), made.text += " bias";
  if (draw.one_in(4)) y = ops::relu(y), made.text += " relu";
  if (draw.one_in(4)) {
    y = ops::clamp(ops::scalar_like(y, -100), y, ops::scalar_like(y, 90));
    made.text += " clamp";
  }
  if (const std::int64_t kind = draw.below(4); kind > 0) {
    y = ops::round(y);
    if (draw.one_in(3)) y = y + 7, made.text += " point";
    if (kind > 1) y = ops::convert(y, kind == 2 ? DType::i8 : DType::u8);
    made.text += kind == 1 ? " round" : kind == 2 ? " to i8" : " to u8";
  }
  g.output(y, "y");
  return made;
}

inline Case case_of(std::uint64_t seed) {
  Draw draw(seed);
  constexpr Kind kOften[] = {kProduct,     kProduct,     kProduct, kConvolution,
                             kConvolution, kConvolution, kMean,    kLayer};
  const Kind kind = kOften[draw.below(8)];
  const int threads = draw.one_in(3) ? 2 : 1;
  Case made = kind == kProduct       ? product(draw)
              : kind == kConvolution ? convolution(draw)
              : kind == kMean        ? pooling(draw)
                                     : int8_layer(draw);
  made.kind = kind;
  made.threads = threads;
  made.text = fmt::format("seed {}: {} on {} thread(s)", seed, made.text, threads);
  return made;
}

inline std::vector<Literal> small_whole_numbers(const Graph& graph, std::uint64_t seed) {
  Draw draw(seed ^ 0x5eed);
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Literal value = Literal::uninitialized(graph.input_type(i));
    visit_dtype(value.dtype(), [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>)
        for (T& x : value.mutable_values<T>())
          x = static_cast<T>(draw.below(7) - (value.dtype() == DType::u8 ? 0 : 3));
    });
    arguments.push_back(std::move(value));
  }
  return arguments;
}

enum class Outcome { generated, right, wrong };

// Its text gets what is wrong.
inline Outcome run(const Case& each, std::uint64_t seed, std::string& trouble) {
  const Forced scope(each.threads);
  const std::shared_ptr<const Module> module = make_module(each.graph);
  const lower::Program& program = module->program;
  const bool is_library =
      std::any_of(program.steps.begin(), program.steps.end(),
                  [](const lower::Step& step) { return step.kind == lower::StepKind::library; });
  if (!is_library) return Outcome::generated;
  const std::vector<Literal> arguments = small_whole_numbers(each.graph, seed);
  const std::vector<Literal> wanted = compile(each.graph, "reference").run(arguments);
  Executor executor(module->compiled);
  for (const bool at_end : {true, false}) {
    std::deque<Guarded> memory;
    std::vector<std::byte*> inputs, outputs;
    for (const Literal& argument : arguments) {
      inputs.push_back(memory.emplace_back(static_cast<std::int64_t>(argument.byte_size()), at_end).data());
      std::memcpy(inputs.back(), argument.bytes(), argument.byte_size());
    }
    for (const Literal& result : wanted)
      outputs.push_back(memory.emplace_back(static_cast<std::int64_t>(result.byte_size()), at_end).data());
    // Where temporaries begin is a promise: as aligned as they are.
    const Guarded arena((program.arena_bytes + 63) / 64 * 64, at_end);
    // A kernel that comes again is packed once more, then kept.
    for (int turn = 0; turn < 3; ++turn) {
      const std::vector<unsigned char> is_same(module->keeps_inputs() ? arguments.size() : 0, turn > 0);
      executor.machine().set_same(is_same);
      for (std::size_t i = 0; i < outputs.size(); ++i) std::memset(outputs[i], 0x7f, wanted[i].byte_size());
      executor.run(inputs, outputs, arena.data());
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (std::memcmp(outputs[i], wanted[i].bytes(), wanted[i].byte_size()) == 0) continue;
        const std::vector<double> a = Literal::copy_of(wanted[i].type(), {outputs[i], wanted[i].byte_size()})
                                          .to_doubles(),
                                  b = wanted[i].to_doubles();
        // -0 is 0.
        const auto is_near = [&](double x, double y) { return x == y || std::fabs(x - y) <= each.tolerance; };
        const std::size_t at =
            static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), is_near).first - a.begin());
        if (at == a.size()) continue;
        trouble = fmt::format("element {} of {} is {}, not {} ({}, turn {})", at, a.size(), a[at], b[at],
                              at_end ? "flush with the end" : "flush with the beginning", turn);
        return Outcome::wrong;
      }
    }
  }
  return Outcome::right;
}

// Between the processes.
struct Shared {
  std::uint64_t next, generated, right[kKinds];
  char text[1000];  // of the case that runs, with what is wrong with it
  bool is_wrong;
};

inline void work(Shared& shared, std::uint64_t end, std::chrono::steady_clock::time_point until) {
  while (shared.next < end && std::chrono::steady_clock::now() < until) {
    const std::uint64_t seed = shared.next;
    const Case each = case_of(seed);
    std::strncpy(shared.text, each.text.c_str(), sizeof shared.text - 1);
    ++shared.next;
    std::string trouble;
    try {
      switch (run(each, seed, trouble)) {
        case Outcome::generated: ++shared.generated; break;
        case Outcome::right: ++shared.right[each.kind]; break;
        case Outcome::wrong: break;
      }
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    if (trouble.empty()) continue;
    std::strncpy(shared.text, (each.text + ": " + trouble).c_str(), sizeof shared.text - 1);
    shared.is_wrong = true;
    return;
  }
}

// As many cases from the seed on as the time is enough for.
inline void expect_right(std::uint64_t seed, std::chrono::seconds time) {
  const char* const given = std::getenv("SYSTOLE_SEED");
  const char* const count = std::getenv("SYSTOLE_CASES");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : seed;
  const std::uint64_t end = first + (count != nullptr ? std::strtoull(count, nullptr, 10) : 100'000);
  const auto until = std::chrono::steady_clock::now() +
                     (count != nullptr ? std::chrono::seconds(std::chrono::hours(24)) : time);
  auto& shared = *static_cast<Shared*>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  shared.next = first;
  constexpr int kSkipped = 77;
  int failures = 0;
  while (shared.next < end && std::chrono::steady_clock::now() < until && failures < 40) {
    shared.is_wrong = false;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv("SYSTOLE_TUNE", "0", 1);
      if (!onednn_absence().empty()) ::_exit(kSkipped);
      work(shared, end, until);
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "no oneDNN";
    const bool is_crash = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (!is_crash && !shared.is_wrong) break;
    ++failures;
    ADD_FAILURE() << shared.text << (is_crash ? fmt::format(": crashed, status {}", status) : "");
  }
  const auto& right = shared.right;
  std::cout << fmt::format(
      "{} cases from seed {}: by oneDNN {} products, {} convolutions, {} means, {} layers; {} left to "
      "generated kernels\n",
      shared.next - first, first, right[kProduct], right[kConvolution], right[kMean], right[kLayer],
      shared.generated);
  if (count == nullptr) {
    EXPECT_GT(right[kProduct] + right[kConvolution], 0u);
  }
}

}  // namespace systole::cpu::bounds
