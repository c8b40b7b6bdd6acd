#include "fixture.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "eval/eval.h"
#include "systole/base/error.h"
#include "systole/io.h"
#include "systole/ir/composite.h"
#include "systole/ir/op.h"
#include "systole/ir/text.h"

namespace systole::conformance {

namespace {

using Arrays = std::map<std::string, Literal>;

const std::filesystem::path kFolder = SYSTOLE_FIXTURES;

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(ErrorKind::kIo, file.string(), "cannot be read");
  return {std::istreambuf_iterator<char>(stream), {}};
}

const Literal& find(const Arrays& arrays, const std::string& name, const std::string& fixture) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) throw Error(ErrorKind::kNotFound, fixture, "the .npz has no array " + name);
  return found->second;
}

// The part of one device, when the array has a leading device axis.
Literal device_part(const Literal& array, std::int64_t device, std::int64_t devices, bool stacked) {
  if (!stacked) return array;
  const Ints dims = array.dims();
  if (dims.empty() || dims[0] != devices)
    throw Error(ErrorKind::kShape, "device axis", "wrong size", std::to_string(devices),
                array.type().to_string());
  const std::size_t part = array.byte_size() / static_cast<std::size_t>(devices);
  Shape shape(std::span<const std::int64_t>(dims.begin() + 1, dims.end()));
  return Literal::copy_of({array.dtype(), shape},
                          array.as_bytes().subspan(static_cast<std::size_t>(device) * part, part));
}

bool is_zero_mark(const std::optional<Literal>& scale) {
  return scale && scale->count() == 1 && scale->item<double>() == 0;
}

}  // namespace

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".sir") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Fixture load_fixture(const std::string& name) {
  const std::filesystem::path text = kFolder / (name + ".sir");
  Fixture fixture{name, ir::parse(read_text(text), text.filename().string()), {}, {}};
  Arrays arrays;
  for (io::NamedArray& array : io::load_npz(kFolder / (name + ".npz")))
    arrays[array.name] = std::move(array.value);

  const ir::Graph& graph = fixture.graph;
  const bool stacked = graph.mesh() && eval::uses_collectives(graph);
  const std::int64_t devices = stacked ? graph.mesh()->size() : 1;
  for (std::int64_t device = 0; device < devices; ++device) {
    std::vector<Literal> arguments;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const Literal part = device_part(find(arrays, graph.input_name(i), name), device, devices, stacked);
      arguments.push_back(in_dtype(part, graph.input_type(i).dtype));
    }
    fixture.arguments.push_back(std::move(arguments));

    std::vector<Expected> results;
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const std::string& output = graph.outputs()[i].name;
      const DType dtype = graph.output_type(i).dtype;
      Literal value = device_part(find(arrays, output, name), device, devices, stacked);
      std::optional<Literal> scale;
      bool exact = value.dtype() != DType::f64;
      if (const auto found = arrays.find(output + ".scale"); found != arrays.end()) {
        if (is_zero_mark(found->second))
          exact = true;
        else
          scale = device_part(found->second, device, devices, stacked);
      }
      if (dtype == DType::f64 && row_tolerance(name) == 0) exact = true;
      if (exact) value = in_dtype(value, dtype);
      results.push_back({std::move(value), std::move(scale), exact});
    }
    fixture.expected.push_back(std::move(results));
  }
  return fixture;
}

ir::Graph bound_graph(const Fixture& fixture) {
  if (fixture.graph.is_static()) return fixture.graph;
  std::vector<Type> types;
  for (const Literal& argument : fixture.arguments[0]) types.push_back(argument.type());
  return ir::bind_symbols(fixture.graph, ir::match_symbols(fixture.graph, types));
}

Literal in_dtype(const Literal& array, DType dtype) {
  const DType stored = array.dtype();
  if (stored == dtype) return array;
  const bool bits = (stored == DType::u16 && dtype == DType::bf16) ||
                    (stored == DType::u8 && (dtype == DType::f8e4m3fn || dtype == DType::f8e5m2));
  if (!bits)
    throw Error(ErrorKind::kDType, "fixture", "an array has the wrong dtype",
                std::string(systole::name(dtype)), std::string(systole::name(stored)));
  return array.reinterpreted(dtype);
}

bool is_of_row(const ir::Node& node, std::string_view row) {
  if (node.op == ir::Op::composite && ir::find_composite(row))
    return node.as<ir::CompositeAttrs>().name == row;
  return ir::name(node.op) == row;
}

double row_tolerance(std::string_view row) {
  if (const auto op = ir::find_op(row)) return ir::info(*op).tolerance;
  if (const ir::CompositeDef* composite = ir::find_composite(row)) return composite->tolerance;
  throw Error(ErrorKind::kNotFound, std::string(row), "a fixture of no known op");
}

}  // namespace systole::conformance
