#include "backend/cpu/tuned/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "backend/cpu/tuned/attention_text.h"

namespace systole::cpu {

namespace {

using patterns::Attention;

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr std::int64_t kLargestDepth = 256;
constexpr std::int64_t kWidest = 32;       // floats of a panel, at most
constexpr std::int64_t kManyItems = 32;    // of a gradient: enough for the threads of a machine
constexpr std::int64_t kFewestKeys = 256;  // of an item of several, lest dq's parts cost more than they give

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// What follows from tiles.
struct Cut {
  AttentionTiles tiles;
  std::int64_t blocks = 0;      // of queries
  std::int64_t range_keys = 0;  // of each but the last
  std::int64_t dq_row = 0;
  bool has_parts = false;  // dq is summed from parts in the workspace, which begin after the means
  std::int64_t means = 0;  // grad·o for each item and query
};

Cut cut_of(const Attention& a, AttentionTiles tiles) {
  Cut cut;
  cut.blocks = ceil_div(a.queries, tiles.queries);
  cut.range_keys = ceil_div(ceil_div(a.keys, tiles.ranges), tiles.keys) * tiles.keys;
  tiles.ranges = ceil_div(a.keys, cut.range_keys);
  cut.tiles = tiles;
  cut.has_parts = tiles.ranges > 1 || a.depth % kWidest != 0 || a.dtype != DType::f32;
  cut.dq_row = cut.has_parts ? ceil_div(a.depth, kWidest) * kWidest : a.depth;
  cut.means = a.batch * a.heads * tiles.ranges * a.queries;
  return cut;
}

std::string filled(std::string_view text,
                   std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string made(text);
  for (const auto& [word, value] : values)
    for (std::size_t at = 0; (at = made.find(word, at)) != std::string::npos; at += value.size())
      made.replace(at, word.size(), value);
  return made;
}

// The text of one kernel; what differs by dtype is whether rows are read where they lie or widened first.
class Text {
 public:
  Text(const Attention& attention, const Cut& cut)
      : a_(attention), c_(cut), is_short_(attention.dtype != DType::f32), dtype_(name(attention.dtype)) {}

  std::string head(const std::string& kernel_name) const {
    std::string made(kAttentionShared);
    if (is_short_) made += fmt::format(fmt::runtime(kAttentionShort), dtype_);
    made += fmt::format("// {}\nvoid {}(void* const* buffers, s_i64 begin, s_i64 end) {{\n", a_.text(),
                        kernel_name);
    made += fmt::format(
        "  enum {{ kHeads = {}, kQueries = {}, kKeys = {}, kAhead = {}, kDepth = {}, kWidth = {}, kCausal = "
        "{},\n"
        "    kQueryTile = {}, kKeyTile = {}, kBlocks = {}, kRanges = {}, kRangeKeys = {}, kDqRow = {} }};\n",
        a_.heads, a_.queries, a_.keys, a_.keys - a_.queries, a_.depth, a_.width, a_.causal ? 1 : 0,
        c_.tiles.queries, c_.tiles.keys, c_.blocks, c_.tiles.ranges, c_.range_keys, c_.dq_row);
    return made + fmt::format("  const float scale = {:.9e}f;\n", a_.scale);
  }

  // Pointers to the head's part of the operands, which the region has in this order.
  std::string operands(std::initializer_list<std::string_view> names) const {
    std::string made;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Attention::Array& array = a_.arrays[i];
      const std::string_view name = names.begin()[i];
      if (name == "lse") {
        made +=
            fmt::format("const float* const lse = (const float*)buffers[{}] + {} + head * kQueries;\n    ",
                        array.input, array.offset);
        continue;
      }
      made += fmt::format(
          "const {0}* const {1} = (const {0}*)buffers[{2}] + {3}LL + head / kHeads * {4}LL + head % kHeads * "
          "{5}LL;\n    const s_i64 {1}_row = {6}LL;\n    ",
          stored(), name, array.input, array.offset, array.strides[0], array.strides[1], array.strides[2]);
    }
    return made;
  }
  std::string result(std::string_view name, std::size_t buffer, std::string_view each,
                     std::string_view type = {}) const {
    return fmt::format("{0}* const {1} = ({0}*)buffers[{2}] + head * {3};\n    ",
                       type.empty() ? stored() : type, name, buffer, each);
  }

  // Rows of an operand in f32, as `name`_tile with `name`_step between them.
  std::string rows(std::string_view name, std::string_view first, std::string_view count,
                   std::string_view columns) const {
    if (!is_short_)
      return fmt::format(
          "const float* const {0}_tile = {0} + {1} * {0}_row; const s_i64 {0}_step = {0}_row;\n", name,
          first);
    return fmt::format(
        "s_rows_of_{4}({0}_rows, {3}, {0} + {1} * {0}_row, {0}_row, {2}, {3});\n"
        "const float* const {0}_tile = {0}_rows; const s_i64 {0}_step = {3};\n",
        name, first, count, columns, dtype_);
  }
  // The same of the keys for a gradient, zeros after them up to the length of a row of dq.
  std::string padded_keys() const {
    if (!is_short_ && c_.dq_row == a_.depth) return rows("k", "k0", "keys", "kDepth");
    return fmt::format(
        "s_rows_{}(k_padded, kDqRow, k + k0 * k_row, k_row, keys, kDepth);\n"
        "const float* const k_tile = k_padded; const s_i64 k_step = kDqRow;\n",
        is_short_ ? fmt::format("of_{}", dtype_) : "f32");
  }
  // Memory for rows that are widened.
  std::string room(std::string_view name, std::string_view rows, std::string_view columns) const {
    return is_short_ ? fmt::format("  float {}_rows[{} * {}];\n", name, rows, columns) : std::string();
  }
  // A panel [columns][S_WIDE] becomes `count` rows of a result.
  std::string store(std::string_view to, std::string_view columns, std::string_view panel) const {
    if (!is_short_)
      return fmt::format("s_transposed({}, {}, {}, S_WIDE, {}, count, 1.0f);\n", to, columns, panel, columns);
    return fmt::format(
        "s_transposed(out_rows, {1}, {2}, S_WIDE, {1}, count, 1.0f);\n"
        "s_rows_to_{3}({0}, {1}, out_rows, {1}, count, {1});\n",
        to, columns, panel, dtype_);
  }

  std::string_view stored() const { return is_short_ ? "s_u16" : "float"; }
  std::string to() const { return is_short_ ? fmt::format("to_{}", dtype_) : "f32"; }

 private:
  const Attention& a_;
  const Cut& c_;
  const bool is_short_;
  const std::string_view dtype_;
};

std::string forward_text(const Text& text, std::size_t inputs, const std::string& kernel_name) {
  return text.head(kernel_name) + text.room("q", "S_WIDE", "kDepth") + text.room("k", "kKeyTile", "kDepth") +
         text.room("v", "kKeyTile", "kWidth") + text.room("out", "S_WIDE", "kWidth") +
         filled(kAttentionForward,
                {{"$PLACES", text.operands({"q", "k", "v"}) + text.result("o", inputs, "kQueries * kWidth") +
                                 text.result("lse", inputs + 1, "kQueries", "float")},
                 {"$QUERY_ROWS", text.rows("q", "q0", "count", "kDepth")},
                 {"$KEY_ROWS", text.rows("k", "k0", "keys", "kDepth")},
                 {"$VALUE_ROWS", text.rows("v", "k0", "keys", "kWidth")},
                 {"$STORE", text.store("o + q0 * kWidth", "kWidth", "mixed")}});
}

std::string gradient_text(const Text& text, const Cut& cut, std::size_t inputs,
                          const std::string& kernel_name) {
  const std::string workspace = fmt::format("(float*)buffers[{}]", inputs + 3);
  const std::string place = fmt::format("(head * kRanges + range) * kQueries");
  const std::string dq = cut.has_parts ? fmt::format("float* const dq = {} + {}LL + {} * kDqRow;\n    ",
                                                     workspace, cut.means, place)
                                       : text.result("dq", inputs, "kQueries * kDepth");
  const std::string mean = fmt::format("float* const mean = {} + {};\n    ", workspace, place);
  return text.head(kernel_name) + "  float k_padded[kKeyTile * kDqRow] = {0};\n" +
         text.room("q", "kQueryTile", "kDepth") + text.room("g", "kQueryTile", "kWidth") +
         text.room("o", "kQueryTile", "kWidth") + text.room("v", "kKeyTile", "kWidth") +
         text.room("out", "S_WIDE", "(kDepth > kWidth ? kDepth : kWidth)") +
         filled(kAttentionGradient,
                {{"$PLACES", text.operands({"q", "k", "v", "o", "lse", "g"}) + dq + mean +
                                 text.result("dk", inputs + 1, "kKeys * kDepth") +
                                 text.result("dv", inputs + 2, "kKeys * kWidth")},
                 {"$MEAN_ROWS",
                  text.rows("g", "q0", "queries", "kWidth") + text.rows("o", "q0", "queries", "kWidth")},
                 {"$KEY_ROWS", text.padded_keys() + text.rows("v", "k0", "keys", "kWidth")},
                 {"$QUERY_ROWS",
                  text.rows("q", "q0", "queries", "kDepth") + text.rows("g", "q0", "queries", "kWidth")},
                 {"$STORE", text.store("dk + (k0 + p) * kDepth", "kDepth", "dkey + p * kDepth") +
                                text.store("dv + (k0 + p) * kWidth", "kWidth", "dvalue + p * kWidth")}});
}

std::string sum_text(const Text& text, const Cut& cut, std::size_t inputs, const std::string& kernel_name) {
  return text.head(kernel_name) +
         fmt::format("  const float* const parts = (const float*)buffers[{}] + {}LL;\n", inputs + 3,
                     cut.means) +
         fmt::format("  {0}* const dq = ({0}*)buffers[{1}];\n", text.stored(), inputs) +
         filled(kAttentionSum, {{"$TO", text.to()}});
}

}  // namespace

patterns::AttentionRules attention_rules() {
  return {.dtypes = kDTypes,
          .together = 1,
          .lse_together = 1,
          .largest_depth = kLargestDepth,
          .takes_repeats = true};
}

AttentionTiles attention_tiles(const Attention& a) {
  AttentionTiles tiles;
  const bool is_deep = std::max(a.depth, a.width) > 128;  // the tiles are on the stack
  tiles.keys = a.is_gradient ? kWidest : is_deep ? 64 : 128;
  tiles.ranges =
      std::clamp<std::int64_t>(ceil_div(kManyItems, a.batch * a.heads), 1, ceil_div(a.keys, kFewestKeys));
  return tiles;
}

Tuned attention_kernels(const Attention& a, const AttentionTiles& tiles, const std::string& kernel_name) {
  constexpr double kOperation = 0.01;  // nanoseconds
  const Cut cut = cut_of(a, tiles);
  const Text text(a, cut);
  std::size_t inputs = 0;
  for (const Attention::Array& array : a.arrays) inputs = std::max(inputs, array.input + 1);
  const std::int64_t heads = a.batch * a.heads;
  const double pairs = static_cast<double>(heads * a.queries * a.keys) * (a.causal ? 0.5 : 1);
  std::set<std::string> helpers = {"s_exp_f32", "s_exp_near_f32", "s_log_f32"};
  if (a.dtype != DType::f32) {
    helpers.insert(fmt::format("s_convert_{}_f32", name(a.dtype)));
    helpers.insert(fmt::format("s_convert_f32_{}", name(a.dtype)));
  }
  Tuned made;
  made.name = a.is_gradient ? "systole.attention_grad" : "systole.attention";
  const auto add = [&](std::string source, const std::string& kernel, std::int64_t items) {
    made.kernels.push_back({.name = kernel,
                            .source = std::move(source),
                            .helpers = helpers,
                            .items = items,
                            .scratch = a.is_gradient});
  };
  if (!a.is_gradient) {
    made.nanoseconds = kOperation * pairs * static_cast<double>(2 * a.depth + 2 * a.width + 40);
    add(forward_text(text, inputs, kernel_name), kernel_name, heads * cut.blocks);
    return made;
  }
  made.nanoseconds = kOperation * pairs * static_cast<double>(6 * a.depth + 4 * a.width + 60);
  made.workspace_bytes = 4 * (cut.means + (cut.has_parts ? cut.means * cut.dq_row : 0));
  add(gradient_text(text, cut, inputs, kernel_name), kernel_name, heads * cut.tiles.ranges);
  if (cut.has_parts)
    add(sum_text(text, cut, inputs, kernel_name + "_dq"), kernel_name + "_dq", heads * cut.blocks);
  return made;
}

Tuned make_attention(const lower::Region& region, const std::string& kernel_name) {
  Attention attention;
  Tuned made;
  made.reason = patterns::read_attention(region, attention, attention_rules());
  if (made.reason.empty() && !std::isfinite(static_cast<float>(attention.scale)))
    made.reason = "the scale is no finite number";
  if (!made.reason.empty()) return made;
  return attention_kernels(attention, attention_tiles(attention), kernel_name);
}

}  // namespace systole::cpu
