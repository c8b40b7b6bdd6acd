// systole tpu: what the TPU compiler makes of a training step, without a TPU.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/nearest.h"
#include "cli/bench/training.h"
#include "cli/bench/workloads.h"
#include "cli/cli.h"
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
                             {"resnet50", "resnet50", 256},
                             {"lstm", "lstm", 64},
                             {"gpt2", "gpt", 16}};

bool is_file(const std::string& model) {
  return model == "-" || std::filesystem::path(model).extension() == ".sir";
}

const Model& find_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Model& model : kModels) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw UsageError(fmt::format("there is no model {}; they are {}, or a file that ends in .sir", name,
                               fmt::join(names, ", ")));
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
    for (const Dim& d : graph.input_type(i).shape) {
      if (d.is_static()) continue;
      if (!symbol.empty() && d.symbol_name() != symbol)
        throw UsageError(
            fmt::format("{} has the symbolic sizes {} and {}; bind them with systole eval or fmt",
                        options.model, symbol, d.symbol_name()));
      symbol = d.symbol_name();
    }
  if (symbol.empty()) return graph;
  if (options.batch == 0)
    throw UsageError(fmt::format("{} has the symbolic size {}; give it with --batch", options.model, symbol));
  values.set(symbol, options.batch);
  return ir::bind_symbols(graph, values);
}

void show_progress(const std::string& text) {
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K{}", text);
}

TpuResult compile_file(const Options& options, const std::string& topology) {
  return {options.model, {}, options.batch, tpu::compile(read_graph(options), topology)};
}

TpuResult compile_model(const Options& options, const std::string& name) {
  const bench::Workload work = workload_of(options);
  const tpu::Topology topology = tpu::topology(name);
  check_batch(work.batch, topology);
  const ir::Graph graph = bench::step_graph(work, DeviceMesh("reference", {{"data", topology.devices}}));
  return {options.model, work.dtype == "fp32" ? "f32" : "bf16", work.batch, tpu::compile(graph, name)};
}

int compile_all(const Options& options) {
  if (!options.out.empty() && options.topologies.size() > 1)
    throw UsageError("-o holds the program for one topology");
  if (!is_file(options.model)) {  // all that can be said before minutes of work
    const std::int64_t batch = workload_of(options).batch;
    for (const std::string& name : options.topologies) check_batch(batch, tpu::topology(name));
  }
  std::vector<TpuResult> results;
  for (const std::string& name : options.topologies) {
    show_progress(fmt::format("compiling {} for {} …", options.model, name));
    results.push_back(is_file(options.model) ? compile_file(options, name) : compile_model(options, name));
    show_progress("");
    if (options.json) {
      put(tpu_json(results.back()).dump() + "\n");
      flush_output();
    }
  }
  if (!options.json) put(tpu_table(results, terminal_width()));
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

}  // namespace

Action add_tpu(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.require_subcommand(1);
  CLI::App* const topologies = app.add_subcommand("topologies", "List the slices that can be compiled for");
  topologies->add_flag("--json", options->json, "a JSON line per topology");
  CLI::App* const compile =
      app.add_subcommand("compile", "Compile a training step for TPUs that are not there");
  CLI::Validator positive = CLI::PositiveNumber;
  positive.description("");
  CLI::Validator dtypes = CLI::IsMember({"bf16", "f32"});
  dtypes.description("");
  compile->add_option("--model", options->model, "mlp, keras-cnn, resnet50, lstm, gpt2 or a graph FILE.sir")
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
      ->check(positive);
  compile
      ->add_option("--dtype", options->dtype,
                   "bf16 (by autocast, the default) or f32 for matrix\nproducts and convolutions")
      ->type_name("NAME")
      ->check(dtypes);
  compile->add_option("-o,--out", options->out, "write the TPU's program to this file")->type_name("FILE");
  compile->add_flag("--json", options->json, "a JSON line per topology");
  compile->footer(
      R"(A step is forward pass, backward pass and optimiser, data parallel over the devices of the
topology. libtpu compiles it as for the real thing; times are its estimate at best.

Examples:
  systole tpu compile --model resnet50 --topology v5e:2x2,v5p:2x2x1,v6e:2x2
  systole tpu compile --model gpt2 --batch 64 --topology v5e:4x4 -o gpt2.tpu)");
  app.footer(
      "`systole tpu compile --help` explains compiling. No TPU is needed, only libtpu (scripts/setup).");
  return [options, compile] {
    return compile->parsed() ? compile_all(*options) : list_topologies(options->json);
  };
}

}  // namespace systole::cli
