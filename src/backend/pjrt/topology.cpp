#include "backend/pjrt/topology.h"

#include "backend/pjrt/client.h"
#include "backend/pjrt/plugin.h"

namespace systole::pjrt {

namespace {

std::int64_t whole(const NamedValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() || found->second.integers.empty() ? 0 : found->second.integers[0];
}

double number(const NamedValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second.number;
}

}  // namespace

TopologyDescription::TopologyDescription(const Api& api, const std::string& name,
                                         const std::string& chip_config)
    : api_(api) {
  constexpr std::string_view kConfig = "chip_config_name";
  PJRT_NamedValue option{PJRT_NamedValue_STRUCT_SIZE};
  option.name = kConfig.data();
  option.name_size = kConfig.size();
  option.type = PJRT_NamedValue_kString;
  option.string_value = chip_config.data();
  option.value_size = chip_config.size();
  SYSTOLE_PJRT_ARGS(PJRT_TopologyDescription_Create, args);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = &option;
  args.num_options = chip_config.empty() ? 0 : 1;
  SYSTOLE_PJRT_CALL(api, PJRT_TopologyDescription_Create, args);
  if (args.topology == nullptr)
    throw Error(ErrorKind::kUnsupported, api.where(), "the plugin made no topology", {}, name);
  topology_ = Handle(api, args.topology);
}

TopologyFacts TopologyDescription::facts() const {
  TopologyFacts facts;
  SYSTOLE_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions, devices);
  devices.topology = topology_.get();
  SYSTOLE_PJRT_CALL(api_, PJRT_TopologyDescription_GetDeviceDescriptions, devices);
  facts.devices = static_cast<std::int64_t>(devices.num_descriptions);
  if (facts.devices == 0) return facts;
  SYSTOLE_PJRT_ARGS(PJRT_DeviceDescription_Kind, kind);
  kind.device_description = devices.descriptions[0];
  SYSTOLE_PJRT_CALL(api_, PJRT_DeviceDescription_Kind, kind);
  facts.kind.assign(kind.device_kind, kind.device_kind_size);
  SYSTOLE_PJRT_ARGS(PJRT_TopologyDescription_Attributes, attributes);
  attributes.topology = topology_.get();
  SYSTOLE_PJRT_CALL(api_, PJRT_TopologyDescription_Attributes, attributes);
  facts.memory_bytes =
      whole(named_values(attributes.attributes, attributes.num_attributes), "device_memory_bytes_limit");
  return facts;
}

CompiledExecutable TopologyDescription::compile(const std::string& stablehlo, const Layout& layout) const {
  PJRT_Program program = as_program(stablehlo);
  const std::string options = compile_options(layout);
  SYSTOLE_PJRT_ARGS(PJRT_Compile, args);
  args.topology = topology_.get();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  SYSTOLE_PJRT_CALL(api_, PJRT_Compile, args);
  if (args.executable == nullptr)
    throw Error(ErrorKind::kUnsupported, api_.where(), "the plugin made no executable");
  return {api_, args.executable};
}

ProgramFacts facts_of(const Api& api, const CompiledExecutable& program) {
  ProgramFacts facts;
  SYSTOLE_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats, memory);
  memory.executable = program.get();
  SYSTOLE_PJRT_CALL(api, PJRT_Executable_GetCompiledMemoryStats, memory);
  facts.argument_bytes = memory.argument_size_in_bytes;
  facts.output_bytes = memory.output_size_in_bytes;
  facts.alias_bytes = memory.alias_size_in_bytes;
  facts.temporary_bytes = memory.temp_size_in_bytes;
  facts.code_bytes = memory.generated_code_size_in_bytes;
  SYSTOLE_PJRT_ARGS(PJRT_Executable_GetCostAnalysis, cost);
  cost.executable = program.get();
  SYSTOLE_PJRT_CALL(api, PJRT_Executable_GetCostAnalysis, cost);
  const NamedValues costs = named_values(cost.properties, cost.num_properties);
  facts.flops = number(costs, "flops");
  facts.bytes_accessed = number(costs, "bytes accessed");
  facts.optimal_seconds = number(costs, "optimal_seconds");
  return facts;
}

std::string serialized(const Api& api, const CompiledExecutable& program) {
  SYSTOLE_PJRT_ARGS(PJRT_Executable_Serialize, args);
  args.executable = program.get();
  SYSTOLE_PJRT_CALL(api, PJRT_Executable_Serialize, args);
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_executable_deleter != nullptr)
    args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

}  // namespace systole::pjrt
