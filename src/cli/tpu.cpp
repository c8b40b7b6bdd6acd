// systole tpu: what the TPU compiler makes of a training step, without a TPU.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "cli/bench/training.h"
#include "cli/bench/workloads.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/tpu_report.h"
#include "systole/backend/tpu.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"
#include "systole/tensor/mesh.h"

namespace systole::cli {

namespace {

struct Options {
  std::string model, dtype, out;
  std::vector<std::string> topologies;
  std::int64_t batch = 0;
  bool json = false;
};

// The models by their names here and among the workloads, with batches that suit small slices.
struct Model {
  std::string_view name, workload;
  std::int64_t batch;
};
constexpr Model kModels[] = {{"mlp", "mlp", 512},
                             {"keras-cnn", "cnn2", 512},
                             {"lstm", "lstm", 64},
                             {"gpt2", "gpt", 16},
                             {"resnet50", "resnet50", 256}};

std::string model_names() {
  std::vector<std::string_view> names;
  for (const Model& model : kModels) names.push_back(model.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_file(const std::string& model) {
  return model == "-" || std::filesystem::path(model).extension() == ".sir";
}

const Model& find_model(const std::string& name) {
  for (const Model& model : kModels)
    if (model.name == name) return model;
  throw UsageError(
      fmt::format("there is no model {}; they are {}, or a file that ends in .sir", name, model_names()));
}

bench::Workload workload_of(const Options& options) {
  const Model& model = find_model(options.model);
  for (bench::Workload work : bench::workloads(true))
    if (work.model == model.workload) {
      work.batch = options.batch != 0 ? options.batch : model.batch;
      work.dtype = options.dtype == "f32" ? "fp32" : "bf16";
      return work;
    }
  throw Error(ErrorKind::kInternal, "tpu", "a model without a workload", {}, options.model);
}

void check_batch(std::int64_t batch, const tpu::Topology& topology) {
  if (batch % topology.devices == 0) return;
  const std::int64_t below = batch / topology.devices * topology.devices, above = below + topology.devices;
  throw UsageError(fmt::format("--batch {}: the {} devices of {} cannot share it evenly; {} can be shared",
                               batch, topology.devices, topology.name,
                               below > 0 ? fmt::format("{} or {}", below, above) : std::to_string(above)));
}

// A graph from a file; its one symbol, if it has one, is the batch.
ir::Graph read_graph(const Options& options) {
  ir::Graph graph = ir::parse(read_text(options.model), options.model == "-" ? "<stdin>" : options.model);
  if (!options.dtype.empty()) throw UsageError("--dtype is for the named models: a file has its types");
  SymbolValues values;
  std::string symbol;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    for (const Dim& d : graph.input_type(i).shape)
      for (const std::string_view other : d.symbols()) {
        if (!symbol.empty() && other != symbol)
          throw UsageError(
              fmt::format("{} has the symbolic sizes {} and {}; bind them with systole run or fmt",
                          options.model, symbol, other));
        symbol = other;
      }
  if (symbol.empty()) return graph;
  if (options.batch == 0)
    throw UsageError(fmt::format("{} has the symbolic size {}; give it with --batch", options.model, symbol));
  values.set(symbol, options.batch);
  return ir::bind_symbols(graph, values);
}

void show_progress(const std::string& text) {
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K{}", printable(text));
}

// All that can be said before minutes of work.
std::vector<tpu::Topology> checked_topologies(const Options& options) {
  const std::int64_t batch = is_file(options.model) ? 0 : workload_of(options).batch;
  std::vector<tpu::Topology> topologies;
  for (const std::string& name : options.topologies) {
    topologies.push_back(tpu::topology(name));
    check_batch(batch, topologies.back());
  }
  if (!options.out.empty()) const AtomicFile can_be_written(options.out);
  return topologies;
}

// `file`: the graph when the model is one.
TpuResult compile_for(const Options& options, const std::optional<ir::Graph>& file,
                      const tpu::Topology& topology) {
  if (file) return {options.model, {}, options.batch, tpu::compile(*file, topology.name)};
  const bench::Workload work = workload_of(options);
  const ir::Graph graph = bench::step_graph(work, DeviceMesh("reference", {{"data", topology.devices}}));
  return {options.model, work.dtype == "fp32" ? "f32" : "bf16", work.batch,
          tpu::compile(graph, topology.name)};
}

// Why some topologies have no figures; one reason for several is told once.
class Failures {
 public:
  void add(const std::string& topology, const Error& error) {
    if (all_.empty()) kind_ = error.kind();
    for (auto& [topologies, reason] : all_)
      if (reason == error.what()) {
        topologies += ", " + topology;
        return;
      }
    all_.emplace_back(topology, error.what());
  }
  void throw_if_any() const {
    if (all_.empty()) return;
    std::string reasons = all_[0].second;
    for (std::size_t i = 1; i < all_.size(); ++i)
      reasons += fmt::format("; {}: {}", all_[i].first, all_[i].second);
    throw Error(kind_, all_[0].first, reasons);
  }

 private:
  ErrorKind kind_{};
  std::vector<std::pair<std::string, std::string>> all_;
};

int compile_all(const Options& options) {
  if (!options.out.empty() && options.topologies.size() > 1)
    throw UsageError("-o holds the program for one topology");
  std::optional<ir::Graph> file;
  if (is_file(options.model)) file = read_graph(options);
  std::vector<TpuResult> results;
  Failures failures;
  for (const tpu::Topology& topology : checked_topologies(options)) {
    show_progress(fmt::format("compiling {} for {} …", options.model, topology.name));
    try {
      results.push_back(compile_for(options, file, topology));
      if (options.json) put(tpu_json(results.back()).dump() + "\n");
    } catch (const Error& error) {
      failures.add(topology.name, error);
    }
    show_progress("");
    flush_output();
  }
  if (!options.json && !results.empty()) put(tpu_table(results, terminal_width()));
  failures.throw_if_any();
  if (options.out.empty()) return 0;
  const std::string& program = results[0].report.executable;
  if (program.empty())
    throw Error(ErrorKind::kOutOfMemory, options.out, "not written: the program does not fit",
                size_text(static_cast<double>(results[0].report.topology.hbm_bytes)),
                size_text(static_cast<double>(results[0].report.peak_bytes())));
  write_file(options.out, std::as_bytes(std::span(program)));
  return 0;
}

int list_topologies(bool json) {
  const std::vector<tpu::Topology> all = tpu::topologies();
  if (!json) {
    put(topology_table(all));
    return 0;
  }
  for (const tpu::Topology& topology : all) put(topology_json(topology).dump() + "\n");
  return 0;
}

int list_models(bool json) {
  for (const Model& model : kModels)
    put(json ? nlohmann::ordered_json{{"model", model.name}, {"batch", model.batch}}.dump() + "\n"
             : fmt::format("{:<10} batch {}\n", model.name, model.batch));
  return 0;
}

}  // namespace

Action add_tpu(App& app) {
  auto options = std::make_shared<Options>();
  app.require_subcommand(1);
  App* const topologies = app.add_subcommand("topologies", "List the slices that can be compiled for");
  topologies->add_flag("--json", options->json, "a JSON line per topology");
  App* const models = app.add_subcommand("models", "List the training steps that can be compiled");
  models->add_flag("--json", options->json, "a JSON line per model");
  App* const compile = app.add_subcommand("compile", "Compile a training step for TPUs that are not there");
  compile->add_option("--model", options->model, model_names() + " or a graph FILE.sir")
      ->required()
      ->type_name("NAME");
  compile->add_option("--topology", options->topologies, "e.g. v5e:2x2; several with commas, side by side")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME[,…]");
  compile
      ->add_option("--batch", options->batch,
                   "of all devices together, shared evenly; for a\nfile the value of its symbolic size")
      ->type_name("N")
      ->positive();
  compile
      ->add_option("--dtype", options->dtype,
                   "bf16 (by autocast, the default) or f32 for matrix\nproducts and convolutions")
      ->type_name("NAME")
      ->one_of({"bf16", "f32"});
  compile->add_option("-o,--out", options->out, "write the TPU's program to this file")->type_name("FILE");
  compile->add_flag("--json", options->json, "a JSON line per topology");
  compile->footer(
      R"(A step is forward pass, backward pass and optimiser, data parallel over the devices of the
topology. libtpu compiles it as for the real thing; times are its estimate at best.

Examples:
  systole tpu compile --model resnet50 --topology v5e:2x2,v5p:2x2x1,v6e:2x2
  systole tpu compile --model gpt2 --batch 64 --topology v5e:4x4 -o gpt2.tpu)");
  app.footer(
      "`systole tpu compile --help` explains compiling. No TPU is needed, only libtpu (`pip install "
      "libtpu`).");
  return [options, compile, models] {
    if (compile->parsed()) return compile_all(*options);
    return models->parsed() ? list_models(options->json) : list_topologies(options->json);
  };
}

}  // namespace systole::cli
