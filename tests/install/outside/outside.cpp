// A program outside the tree: parses a graph, runs it and prints relu(x·w + b). By hand: x·w = (1·2 + 2·3,
// 1·1 + 2·-1) = (8, -1), plus b = (-1, 3) gives (7, 2).

#include <systole/systole.h>

#include <iostream>

int main() {
  using namespace systole;
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
}
