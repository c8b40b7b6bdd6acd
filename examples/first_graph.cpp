// Builds relu(x·w + b) as a graph, prints it, runs it on a device and prints the result.

#include <systole/systole.h>

#include <iostream>

#include "options.h"

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE]");
  using namespace systole;

  ir::Graph graph("affine");
  ir::Value x = graph.input("x", {DType::f32, {2, 3}});
  ir::Value w = graph.input("w", {DType::f32, {3, 2}});
  ir::Value b = graph.input("b", {DType::f32, {2}});
  graph.output(ops::relu(ops::matmul(x, w) + b), "y");
  std::cout << ir::print(graph) << "\n";

  CompiledGraph affine = compile(graph, argc > 1 ? argv[1] : "auto");
  std::vector<Literal> y =
      affine.run({Literal::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                  Literal::of<float>({3, 2}, {1, 0, 0, 1, 1, -1}), Literal::of<float>({2}, {0.5f, -2})});
  std::cout << "y on " << affine.device().to_string() << ":\n" << y[0] << "\n";
} catch (const systole::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
