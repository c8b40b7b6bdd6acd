// Reads a graph from text, runs it and prints inputs, graph and result:
//   graph_from_text examples/demo.sir [DEVICE]

#include <systole/systole.h>

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "options.h"

namespace {

std::string read(const char* file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw systole::Error(systole::ErrorKind::kIo, file, "cannot be read");
  return text.str();
}

void show(const std::string& name, const systole::Literal& value) {
  std::cout << "\n" << name << ": " << value.type().to_string() << "\n" << value << "\n";
}

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "GRAPH.sir [DEVICE]");
  using namespace systole;
  if (argc < 2) {
    std::cerr << "usage: graph_from_text GRAPH.sir [DEVICE]\n";
    return 2;
  }
  const ir::Graph graph = ir::parse(read(argv[1]), argv[1]);
  const CompiledGraph layer = compile(graph, argc > 2 ? argv[2] : "reference");

  const std::vector<Literal> arguments = {
      Literal::of<float>({4, 3}, {1, 2, 3, 0, 1, 0, -1, 0, 2, 5, -5, 1}),  // x: four rows, so N is 4
      Literal::of<float>({3, 2}, {1, 0, 0, 1, -1, 0.5f}),                  // w
      Literal::of<float>({2}, {0.5f, -1}),                                 // b
  };
  const std::vector<Literal> results = layer.run(arguments);
  std::cout << "The graph, as text (" << argv[1] << "):\n\n" << ir::print(graph) << "\nIts inputs:\n";
  for (std::size_t i = 0; i < arguments.size(); ++i) show(layer.inputs()[i].name, arguments[i]);
  std::cout << "\nIts result, computed on " << layer.device().to_string() << ":\n";
  for (std::size_t i = 0; i < results.size(); ++i) show(layer.outputs()[i].name, results[i]);
} catch (const systole::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
