// Finding the TPU of this machine. A program drives the TPU that its machine has, through a plugin in its own
// process, so there is nothing to connect to: what is resolved is which worker of which slice this process
// is. The variables are those that libtpu reads; they count before what the metadata server says, as there.

#include "backend/pjrt/resolve.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/pjrt/discovery.h"
#include "backend/pjrt/metadata.h"
#include "backend/pjrt/text.h"
#include "base/env.h"
#include "systole/base/error.h"

namespace systole::tpu {

namespace {

constexpr const char* kWhere = "tpu::resolve";
constexpr const char* kRunThere =
    "a program uses the TPU of the machine it runs on: make a TPU VM and run it there "
    "(scripts/cloud-tpu create, then run)";
constexpr const char* kNoNodes =
    "TPU nodes with grpc:// addresses no longer exist: make a TPU VM, run the program on it "
    "(scripts/cloud-tpu create, then run), and ask for \"local\" or for nothing";

// What TPU nodes were found by.
constexpr const char* kNodeVariables[] = {"COLAB_TPU_ADDR", "TPU_ENDPOINT", "XRT_TPU_CONFIG",
                                          "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"};

// A text and what said it; `kind` is what a malformed one throws.
struct Said {
  std::string text, source;
  ErrorKind kind = ErrorKind::kInvalidArgument;
};

std::optional<Said> variable(const char* name) {
  std::optional<std::string> text = env::text(name);
  if (!text) return std::nullopt;
  return Said{std::move(*text), name};
}

std::optional<Said> first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::optional<Said> said = variable(name)) return said;
  return std::nullopt;
}

int number_of(const Said& said, const char* what) {
  const std::string text = trimmed(said.text);
  int number = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size() || number < 0)
    throw Error(said.kind, said.source, "not a number", what, shown(said.text));
  return number;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The metadata server lists name:number:address, or host names; variables list host or host:port.
std::vector<std::string> workers_of(const Said& said, bool endpoints) {
  std::vector<std::string> workers = split(said.text, ',');
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (endpoints)
      if (const std::vector<std::string> fields = split(workers[i], ':'); fields.size() == 3)
        workers[i] = fields[2];
    if (workers[i].empty())
      throw Error(said.kind, said.source, fmt::format("entry {} of {} is empty", i + 1, workers.size()),
                  "addresses separated by commas", shown(said.text));
    if (workers[i] == "local") workers[i] = "localhost";
  }
  return workers;
}

// The number at the end of "v5litepod-4", "v4-8", "tpu7x-8".
int size_of(const Said& accelerator) {
  const std::size_t dash = accelerator.text.rfind('-');
  if (dash == std::string::npos || dash == 0)
    throw Error(accelerator.kind, accelerator.source, "not an accelerator type", "one like v5litepod-4",
                shown(accelerator.text));
  return number_of({accelerator.text.substr(dash + 1), accelerator.source, accelerator.kind},
                   "a type like v5litepod-4");
}

// A line KEY: 'value' of the attribute tpu-env.
std::optional<std::string> value_in(const std::string& tpu_env, std::string_view key) {
  for (const std::string& line : split(tpu_env, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || trimmed(line.substr(0, colon)) != key) continue;
    std::string value = trimmed(line.substr(colon + 1));
    if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'')
      value = value.substr(1, value.size() - 2);
    if (!value.empty()) return value;
  }
  return std::nullopt;
}

// Everything that is said about this process's place, by whom.
struct Place {
  std::optional<Said> workers, worker, accelerator, slices, slice, name;
  bool endpoints = false;  // how `workers` is written
};

Place read_variables() {
  Place place;
  place.accelerator = variable("TPU_ACCELERATOR_TYPE");
  place.slices = variable("MEGASCALE_NUM_SLICES");
  place.slice = variable("MEGASCALE_SLICE_ID");
  // Several processes on one host have addresses and task numbers; else there is one process per host.
  place.workers = variable("TPU_PROCESS_ADDRESSES");
  if (place.workers) {
    place.worker = first_of({"CLOUD_TPU_TASK_ID", "TPU_WORKER_ID"});
    return place;
  }
  place.workers = variable("TPU_WORKER_HOSTNAMES");
  place.worker = variable("TPU_WORKER_ID");
  const std::optional<Said> task = variable("CLOUD_TPU_TASK_ID");
  if (place.worker && task && number_of(*place.worker, "a worker's") != number_of(*task, "a task's"))
    throw Error(ErrorKind::kInvalidArgument, "TPU_WORKER_ID",
                "contradicts CLOUD_TPU_TASK_ID without TPU_PROCESS_ADDRESSES", task->text,
                place.worker->text);
  if (!place.worker) place.worker = task;
  return place;
}

// Fills in what no variable says; whether the server knows of a TPU.
bool ask(const MetadataServer& server, Place& place) {
  bool found = false;
  const auto attribute = [&](const char* name) -> std::optional<Said> {
    std::optional<std::string> text = server.attribute(name);
    if (!text) return std::nullopt;
    return Said{std::move(*text), fmt::format("{}: {}", server.label(), name), ErrorKind::kParse};
  };
  if (!place.workers) {
    place.workers = attribute("worker-network-endpoints");
    place.endpoints = found = place.workers.has_value();
    if (!place.worker) place.worker = attribute("agent-worker-number");
  }
  if (!place.accelerator) {
    place.accelerator = attribute("accelerator-type");
    found = found || place.accelerator;
  }
  if (const std::optional<Said> tpu_env = attribute("tpu-env")) {
    const auto line = [&](const char* key) -> std::optional<Said> {
      std::optional<std::string> text = value_in(tpu_env->text, key);
      if (!text) return std::nullopt;
      return Said{std::move(*text), fmt::format("{} {}", tpu_env->source, key), ErrorKind::kParse};
    };
    place.name = line("NODE_ID");
    if (!place.slices) {
      place.slices = line("MEGASCALE_NUM_SLICES");
      if (!place.slice) place.slice = line("MEGASCALE_SLICE_ID");
    }
  }
  return found;
}

// Which of `count` this is; without a word about it, the only one. `counted_by` may be empty.
int index_of(const std::optional<Said>& said, int count, const char* variable,
             const std::string& counted_by) {
  if (!said) {
    if (count == 1) return 0;
    throw Error(ErrorKind::kInvalidArgument, counted_by,
                fmt::format("of {}, nothing says which one this is", count), variable);
  }
  const int index = number_of(*said, "a number from 0 on");
  if (index >= count)
    throw Error(said->kind, said->source, "out of range",
                counted_by.empty() ? "0, as nothing lists others"
                                   : fmt::format("a number below {}, as {} says", count, counted_by),
                said->text);
  return index;
}

// "tpu", which is the name of the device, means what "local" does.
bool means_this_machine(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text.empty() || text == "local" || text == "localhost" || text == "tpu" || text.starts_with("tpu:");
}

// Refuses what no machine can be meant by.
void check_name(const Said& name) {
  if (name.text.find("://") != std::string::npos) {
    if (name.text.starts_with("grpc://"))
      throw Error(ErrorKind::kUnsupported, name.source, kNoNodes, {}, shown(name.text));
    throw Error(ErrorKind::kInvalidArgument, name.source, "a URL is no name of a TPU",
                "\"local\" or the name of a TPU VM", shown(name.text));
  }
  for (const char c : name.text)
    if (std::isspace(static_cast<unsigned char>(c)) != 0 || std::iscntrl(static_cast<unsigned char>(c)) != 0)
      throw Error(ErrorKind::kInvalidArgument, name.source, "a name has no white space",
                  "\"local\" or the name of a TPU VM", shown(name.text));
}

// host:port is the address of a worker, here only when it is one of this slice's.
void check_host(const Said& name, const std::vector<std::string>& workers) {
  const std::size_t colon = name.text.find(':');
  if (colon == std::string::npos || means_this_machine(name.text)) return;
  const std::string host = name.text.substr(0, colon);
  if (host == "localhost" || host == "127.0.0.1") return;
  for (const std::string& worker : workers)
    if (worker == name.text || split(worker, ':')[0] == host) return;
  throw Error(ErrorKind::kUnsupported, name.source,
              fmt::format("no worker of this machine's TPU has that address; {}", kRunThere), {},
              shown(name.text));
}

[[noreturn]] void nothing_found(const std::optional<Said>& name, Metadata metadata) {
  for (const char* legacy : kNodeVariables)
    if (const std::optional<Said> said = variable(legacy))
      throw Error(ErrorKind::kUnsupported, legacy, kNoNodes, {}, shown(said->text));
  std::string looked = "no device file of a TPU, no TPU_WORKER_HOSTNAMES";
  if (metadata == Metadata::ask) looked += ", and the metadata server knows of none";
  throw Error(ErrorKind::kNotFound, name ? name->source : kWhere,
              fmt::format("this machine has no TPU ({}); {}", looked, kRunThere), {},
              name ? shown(name->text) : std::string());
}

}  // namespace

Cluster resolve(std::string_view name, Metadata metadata, const Machine& machine) {
  std::optional<Said> asked;
  if (const std::string text = trimmed(name); !text.empty()) {
    asked = Said{text, kWhere};
  } else if ((asked = variable("TPU_NAME"))) {
    asked->text = trimmed(asked->text);
  }
  if (asked) check_name(*asked);

  Place place = read_variables();
  const bool devices = pjrt::has_tpu(machine.root);
  std::string source = place.workers ? place.workers->source : devices ? "device files" : "";
  if (metadata == Metadata::ask && !(place.workers && place.worker && place.accelerator)) {
    const bool found = ask(MetadataServer(machine.metadata_limit), place);
    if (found && (source.empty() || place.endpoints)) source = "metadata server";
  }
  if (source.empty()) nothing_found(asked, metadata);

  Cluster cluster;
  cluster.source = source;
  cluster.workers =
      place.workers ? workers_of(*place.workers, place.endpoints) : std::vector{std::string("localhost")};
  const int count = static_cast<int>(cluster.workers.size());
  cluster.worker = index_of(place.worker, count, "TPU_WORKER_ID", place.workers ? place.workers->source : "");
  if (place.accelerator) {
    cluster.accelerator = trimmed(place.accelerator->text);
    if (const int size = size_of(*place.accelerator); size < count)
      throw Error(place.accelerator->kind, place.accelerator->source,
                  fmt::format("fewer chips than {} has workers", place.workers->source),
                  fmt::format("at least {}", count), cluster.accelerator);
  }
  if (place.slices) {
    cluster.slices = number_of(*place.slices, "a number of slices");
    if (cluster.slices == 0)
      throw Error(place.slices->kind, place.slices->source, "no slice", "at least 1", "0");
  }
  cluster.slice =
      index_of(place.slice, cluster.slices, "MEGASCALE_SLICE_ID", place.slices ? place.slices->source : "");

  if (asked) check_host(*asked, cluster.workers);
  const bool named = asked && !means_this_machine(asked->text);
  // Host names are not names of TPU VMs, so only what stands without a port can be compared.
  if (named && place.name && place.name->text != asked->text && asked->text.find(':') == std::string::npos &&
      std::find(cluster.workers.begin(), cluster.workers.end(), asked->text) == cluster.workers.end())
    throw Error(ErrorKind::kInvalidArgument, asked->source,
                fmt::format("this machine belongs to another TPU; {}", kRunThere), place.name->text,
                asked->text);
  cluster.name = named ? asked->text : "local";
  return cluster;
}

Cluster resolve(std::string_view name, Metadata metadata) { return resolve(name, metadata, Machine{}); }

}  // namespace systole::tpu
