// A program outside the tree: parses a graph, runs it and prints relu(x·w + b). By hand: x·w = (1·2 + 2·3,
// 1·1 + 2·-1) = (8, -1), plus b = (-1, 3) gives (7, 2). Then two large products on the processor, of ones:
// every element is the depth. Last, which oneDNN the system has mapped for it.

#include <systole/systole.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>

using namespace systole;

float product_of_ones(std::int64_t depth) {
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::f32, {128, depth}}),
                  w = graph.input("w", {DType::f32, {depth, 128}});
  ir::DotAttrs attrs;
  attrs.a_contract = {1};
  attrs.b_contract = {0};
  graph.output(graph.add(ir::Op::dot_general, {x, w}, attrs), "y");
  return compile(graph, "cpu")
      .run({Literal::full({DType::f32, {128, depth}}, 1), Literal::full({DType::f32, {depth, 128}}, 1)})[0]
      .values<float>()[128 * 128 - 1];
}

std::string mapped_onednn() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/libdnnl.so") != std::string::npos) return line.substr(line.find('/'));
  return "none";
}

int main() {
  ir::Graph graph = ir::parse(R"(systole.ir 1
graph @main(%x: f32[1,2], %w: f32[2,2], %b: f32[1,2]) {
  %xw = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %s = add(%xw, %b)
  %zero = constant() {value=f32[1,2](splat 0)}
  %y = max(%s, %zero)
  return y: %y
})");
  std::vector<Literal> y =
      compile(graph, "reference")
          .run({Literal::of<float>({1, 2}, {1, 2}), Literal::of<float>({2, 2}, {2, 1, 3, -1}),
                Literal::of<float>({1, 2}, {-1, 3})});
  std::cout << "y = " << y[0].values<float>()[0] << " " << y[0].values<float>()[1] << "\n";
  std::cout << "products = " << product_of_ones(256) << " " << product_of_ones(384) << "\n";
  std::cout << "oneDNN: " << mapped_onednn() << "\n";
}
