// What recording and re-evaluating cost, for callgrind to count: collection is on only between the two marks
// of a region. `record` records kOps elementwise ops; `evaluate` evaluates recorded work of kOps ops whose
// structure has been compiled before.

#include <cstdio>
#include <cstring>

#include <valgrind/callgrind.h>

#include "systole/tensor/math.h"
#include "systole/tensor/tensor.h"

namespace {

using systole::Tensor;

constexpr int kOps = 60;

Tensor chain(const Tensor& a, const Tensor& b, int ops) {
  Tensor x = a;
  for (int i = 0; i < ops / 3; ++i) x = (x + b) * a - b;
  return x;
}

}  // namespace

int main(int, char** argv) {
  const systole::DeviceScope device("reference");  // the budget is that of the interpreter
  const Tensor a = Tensor(systole::Literal::full({systole::DType::f32, {4}}, 1));
  const Tensor b = Tensor(systole::Literal::full({systole::DType::f32, {4}}, 0.5));
  if (std::strcmp(argv[1], "record") == 0) {
    chain(a, b, kOps);
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_TOGGLE_COLLECT;
    const Tensor x = chain(a, b, kOps);
    CALLGRIND_TOGGLE_COLLECT;
  } else {
    for (int i = 0; i < 3; ++i) chain(a, b, kOps).eval();
    const Tensor x = chain(a, b, kOps);
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_TOGGLE_COLLECT;
    x.eval();
    CALLGRIND_TOGGLE_COLLECT;
    std::printf("%s\n", x.to_string().c_str());
  }
  return 0;
}
