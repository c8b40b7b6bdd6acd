#include "cli/tpu_report.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/terminal.h"

namespace systole::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownWaste = 5;
constexpr double kSmallWaste = 0.01;  // of all work; below, it is not worth a line

double gibi(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string spare_text(const tpu::Report& report) {
  const auto spare = static_cast<double>(report.topology.hbm_bytes - report.peak_bytes());
  return spare >= 0 ? size_text(spare) : size_text(-spare) + " short";
}

double padding(const tpu::Report& report) {  // FLOPs done for nothing
  double sum = 0;
  for (const tpu::Waste& waste : report.waste) sum += waste.padded_flops - waste.flops;
  return sum;
}

struct Row {
  std::string label;
  std::function<std::string(const TpuResult&)> text;
  bool refused = false;  // known of a program that does not fit, too
};

std::vector<Row> rows() {
  const auto bytes = [](std::int64_t n) { return size_text(static_cast<double>(n)); };
  return {
      {"chip", [](const TpuResult& r) { return r.report.topology.chip; }, true},
      {"devices",
       [](const TpuResult& r) {
         return r.report.devices == r.report.topology.devices
                    ? std::to_string(r.report.devices)
                    : fmt::format("{} of {}", r.report.devices, r.report.topology.devices);
       },
       true},
      {"fits in HBM", [](const TpuResult& r) { return r.report.fits() ? "yes" : "NO"; }, true},
      {"  needs", [=](const TpuResult& r) { return bytes(r.report.peak_bytes()); }, true},
      {"  to spare", [](const TpuResult& r) { return spare_text(r.report); }, true},
      {"  arguments", [=](const TpuResult& r) { return bytes(r.report.argument_bytes); }},
      {"  temporaries", [=](const TpuResult& r) { return bytes(r.report.temporary_bytes); }},
      {"step", [](const TpuResult& r) { return with_prefix(r.report.seconds, "s"); }},
      {"samples/s",
       [](const TpuResult& r) {
         return r.batch == 0 ? "-" : with_prefix(static_cast<double>(r.batch) / r.report.seconds, "");
       }},
      {"estimated by",
       [](const TpuResult& r) {
         return r.report.estimate == tpu::Estimate::compiler ? "compiler" : "roofline";
       }},
      {"of bf16 peak",
       [](const TpuResult& r) {
         return fmt::format("{:.1f} %",
                            100 * r.report.flops / r.report.seconds / r.report.topology.bf16_flops);
       }},
      {"FLOPs", [](const TpuResult& r) { return with_prefix(r.report.flops, "FLOP"); }},
      {"bytes moved", [](const TpuResult& r) { return with_prefix(r.report.bytes_accessed, "B"); }},
      {"FLOPs per byte", [](const TpuResult& r) { return fmt::format("{:.3g}", r.report.intensity()); }},
      {"  ridge", [](const TpuResult& r) { return fmt::format("{:.3g}", r.report.topology.ridge()); }},
      {"  bound by", [](const TpuResult& r) { return r.report.compute_bound() ? "compute" : "memory"; }},
      {"MXU padding",
       [](const TpuResult& r) {
         double done = 0;
         for (const tpu::Waste& waste : r.report.waste) done += waste.flops;
         const double idle = padding(r.report), all = std::max(r.report.flops, done) + idle;
         return all > 0 ? fmt::format("{:.0f} %", 100 * idle / all) : "-";
       }},
      {"compiled in", [](const TpuResult& r) { return with_prefix(r.report.compile_seconds, "s"); }, true},
  };
}

std::string block(const std::vector<TpuResult>& results, std::size_t first, std::size_t count, int label,
                  int column) {
  std::string names = padded("", label);
  for (std::size_t i = first; i < first + count; ++i)
    names += "  " + padded(results[i].report.topology.name, column);
  const auto trimmed = [](const std::string& line) { return line.substr(0, line.find_last_not_of(' ') + 1); };
  std::string text = coloured(Colour::bold, trimmed(names)) + "\n";
  for (const Row& row : rows()) {
    std::string line = padded(row.label, label);
    for (std::size_t i = first; i < first + count; ++i) {
      const bool known = row.refused || results[i].report.refused_bytes == 0;
      std::string cell = padded(known ? row.text(results[i]) : "-", column);
      if (row.label == "fits in HBM")
        cell = coloured(results[i].report.fits() ? Colour::green : Colour::red, cell);
      line += "  " + cell;
    }
    text += trimmed(line) + "\n";
  }
  return text;
}

void add_wrapped(std::string& text, std::string_view words, std::size_t indent, int width) {
  for (const std::string& line : wrapped(words, width - static_cast<int>(indent)))
    text += std::string(indent, ' ') + line + "\n";
}

std::string losses(const TpuResult& result, int width) {
  const tpu::Report& report = result.report;
  std::string text;
  double work = report.flops;
  for (const tpu::Waste& waste : report.waste) work = std::max(work, waste.padded_flops);
  std::size_t shown = 0;
  for (const tpu::Waste& waste : report.waste) {
    if (shown == kShownWaste || waste.padded_flops - waste.flops < kSmallWaste * work) break;
    if (shown++ == 0)
      text += "\n" +
              coloured(Colour::bold, fmt::format("Sizes that do not fill the matrix unit, on {} per device",
                                                 report.topology.name)) +
              "\n";
    add_wrapped(text,
                fmt::format("{}{}, {} needed, {} done", waste.where,
                            waste.count > 1 ? fmt::format(", {} times", waste.count) : "",
                            with_prefix(waste.flops, "FLOP"), with_prefix(waste.padded_flops, "FLOP")),
                2, width);
    add_wrapped(text, waste.advice, 6, width);
  }
  for (std::size_t i = 0; i < report.advice.size(); ++i) {
    if (i == 0) text += "\n" + coloured(Colour::bold, "Types") + "\n";
    add_wrapped(text, report.advice[i], 2, width);
  }
  std::vector<std::string> remarks;
  if (report.estimate == tpu::Estimate::roofline && report.refused_bytes == 0)
    remarks.emplace_back(
        "It is the roofline: FLOPs and bytes at the chip's peaks, more than the compiler's own figure.");
  if (report.estimate == tpu::Estimate::compiler && report.untimed_ops > 0)
    remarks.push_back(fmt::format("The compiler has no time for {} of the ops, so the step takes longer.",
                                  report.untimed_ops));
  if (report.loops_once)
    remarks.emplace_back("The compiler counts the body of a loop once, so bytes and time are too small.");
  if (!remarks.empty())
    text += "\n" + coloured(Colour::bold, "The estimate, on " + report.topology.name) + "\n";
  for (const std::string& remark : remarks) add_wrapped(text, remark, 2, width);
  return text;
}

}  // namespace

std::string with_prefix(double value, std::string_view unit) {
  constexpr std::string_view kLarge[] = {"", "k", "M", "G", "T", "P", "E"}, kSmall[] = {"", "m", "µ", "n"};
  std::size_t large = 0, small = 0;
  for (; value >= 999.5 && large + 1 < std::size(kLarge); ++large) value /= 1000;
  for (; value > 0 && value < 0.9995 && small + 1 < std::size(kSmall); ++small) value *= 1000;
  const std::string_view prefix = large > 0 ? kLarge[large] : kSmall[small];
  const bool bare = prefix.empty() && unit.empty();
  return fmt::format("{:.{}f}{}{}{}", value,
                     value >= 100 || value == 0 ? 0
                     : value >= 10              ? 1
                                                : 2,
                     bare ? "" : " ", prefix, unit);
}

std::string tpu_table(const std::vector<TpuResult>& results, int width) {
  const TpuResult& first = results.at(0);
  std::string text = first.model;
  if (first.batch != 0) text += fmt::format(", batch {} over all devices", first.batch);
  if (!first.dtype.empty()) text += ", " + first.dtype;
  text += "; figures are of one device and one step\n\n";
  int label = 0, column = 0;
  for (const Row& row : rows()) {
    label = std::max(label, columns(row.label));
    for (const TpuResult& result : results)
      if (row.refused || result.report.refused_bytes == 0)
        column = std::max(column, columns(row.text(result)));
  }
  for (const TpuResult& result : results) column = std::max(column, columns(result.report.topology.name));
  const std::size_t fit =
      static_cast<std::size_t>(std::max(1, std::min((width - label) / (column + 2), 1 << 10)));
  for (std::size_t i = 0; i < results.size(); i += fit)
    text += (i == 0 ? "" : "\n") + block(results, i, std::min(fit, results.size() - i), label, column);
  return text + losses(first, width);
}

Json topology_json(const tpu::Topology& t) {
  return {{"topology", t.name},          {"chip", t.chip},
          {"devices", t.devices},        {"hbm_bytes", t.hbm_bytes},
          {"bf16_flops", t.bf16_flops},  {"hbm_bytes_per_s", t.hbm_bytes_per_s},
          {"matrix_unit", t.matrix_unit}};
}

Json tpu_json(const TpuResult& result) {
  const tpu::Report& r = result.report;
  Json line = {{"model", result.model}};
  if (!result.dtype.empty()) line["dtype"] = result.dtype;
  if (result.batch != 0) line["batch"] = result.batch;
  line.update(topology_json(r.topology));
  line["devices_used"] = r.devices;
  line["fits"] = r.fits();
  line["peak_bytes"] = r.peak_bytes();
  if (r.refused_bytes == 0) {
    line.update(Json{{"argument_bytes", r.argument_bytes},
                     {"output_bytes", r.output_bytes},
                     {"alias_bytes", r.alias_bytes},
                     {"temporary_bytes", r.temporary_bytes},
                     {"code_bytes", r.code_bytes},
                     {"seconds", r.seconds},
                     {"estimate", r.estimate == tpu::Estimate::compiler ? "compiler" : "roofline"},
                     {"untimed_ops", r.untimed_ops},
                     {"loops_once", r.loops_once},
                     {"flops", r.flops},
                     {"bytes_accessed", r.bytes_accessed},
                     {"intensity", r.intensity()},
                     {"bound", r.compute_bound() ? "compute" : "memory"}});
    if (result.batch != 0) line["samples_per_s"] = static_cast<double>(result.batch) / r.seconds;
  }
  line["compile_seconds"] = r.compile_seconds;
  line["waste"] = Json::array();
  for (const tpu::Waste& w : r.waste)
    line["waste"].push_back({{"where", w.where},
                             {"advice", w.advice},
                             {"count", w.count},
                             {"flops", w.flops},
                             {"padded_flops", w.padded_flops}});
  line["advice"] = r.advice;
  return line;
}

std::string topology_table(const std::vector<tpu::Topology>& topologies) {
  const auto line = [](std::string_view name, std::string_view chip, std::string_view devices,
                       std::string_view memory, std::string_view flops, std::string_view bandwidth,
                       std::string_view ridge) {
    return fmt::format("{:<12} {:<12} {:>7} {:>9} {:>14} {:>10} {:>6}", name, chip, devices, memory, flops,
                       bandwidth, ridge);
  };
  std::string text =
      coloured(Colour::bold, line("topology", "chip", "devices", "HBM", "bf16 peak", "HBM speed", "ridge")) +
      "\n";
  for (const tpu::Topology& t : topologies)
    text += line(t.name, t.chip, std::to_string(t.devices), fmt::format("{:.1f} GiB", gibi(t.hbm_bytes)),
                 with_prefix(t.bf16_flops, "FLOP/s"), with_prefix(t.hbm_bytes_per_s, "B/s"),
                 fmt::format("{:.0f}", t.ridge())) +
            "\n";
  return text +
         "\nFigures are of one device; below the ridge (FLOPs per byte) memory is what limits. Other sizes\n"
         "of these chips, such as v5e:4x8, can be compiled for too.\n";
}

}  // namespace systole::cli
