#pragma once

// How pass tests read: text in, text out. A case also runs both graphs on inputs full of zeros of both signs,
// NaN, infinities, denormals and extreme integers, and wants the same bits (NaN as NaN).

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "eval/eval.h"
#include "systole/compile/passes.h"
#include "systole/ir/text.h"

namespace systole::pass_check {

struct Case {
  std::string what;
  std::string inputs;  // "%x: f32[12]"
  std::string before;  // statements, ending in return
  std::string after;   // empty: nothing changes
  std::string graphs;  // what the statements before or after may use, innermost first
};

// With those of the case's graphs that are used, since a file has no others.
inline std::string file(const Case& c, const std::string& statements) {
  std::string text = "graph @main(" + c.inputs + ") {\n" + statements + "\n}\n";
  for (std::string rest = c.graphs; !rest.empty();) {
    const std::size_t start = rest.rfind("graph @");
    const std::string graph = rest.substr(start), name = graph.substr(6, graph.find('(') - 6);
    if (text.find(" " + name) != std::string::npos) text = graph + text;
    rest.resize(start);
  }
  return "systole.ir 1\n" + text;
}

inline Literal nasty(const Type& type) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double floats[] = {
      -0.0, std::numeric_limits<double>::quiet_NaN(), inf, -inf, 0.0, 1, -1, 2.5, -3.5, 1e-42, 3e38, 0.1};
  constexpr std::int64_t ints[] = {0, INT64_MIN, -1, 1, INT64_MAX, 2, -128, 127, 5, 255, 32768, -7};
  Literal value = Literal::uninitialized(type);
  visit_dtype(type.dtype, [&]<class T>() {
    std::size_t i = 0;
    for (T& v : value.mutable_values<T>()) {
      if constexpr (std::is_same_v<T, bool>)
        v = i % 2 == 1;
      else if constexpr (std::is_integral_v<T>)
        v = ints[i % 12] == INT64_MIN   ? std::numeric_limits<T>::min()
            : ints[i % 12] == INT64_MAX ? std::numeric_limits<T>::max()
                                        : static_cast<T>(ints[i % 12]);
      else
        v = static_cast<T>(floats[i % 12]);
      ++i;
    }
  });
  return value;
}

inline bool same_values(const Literal& a, const Literal& b) {
  if (!(a.type() == b.type())) return false;
  return visit_dtype(a.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < a.values<T>().size(); ++i) {
      const T x = a.values<T>()[i], y = b.values<T>()[i];
      const bool both_nan = !(static_cast<double>(x) == static_cast<double>(x)) &&
                            !(static_cast<double>(y) == static_cast<double>(y));
      if (!both_nan && std::memcmp(&x, &y, sizeof(T)) != 0) return false;
    }
    return true;
  });
}

inline std::vector<Literal> evaluated(const ir::Graph& graph) {
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) arguments.push_back(nasty(graph.input_type(i)));
  return eval::evaluate(graph, arguments);
}

inline void expect(const Case& c, std::initializer_list<passes::Pass> steps) {
  SCOPED_TRACE(c.what);
  const ir::Graph before = ir::parse(file(c, c.before)),
                  wanted = ir::parse(file(c, c.after.empty() ? c.before : c.after));
  ir::Graph got = before;
  for (const passes::Pass& pass : steps) got = pass.run(got);
  ASSERT_NO_THROW(ir::verify(got));
  EXPECT_TRUE(got.same_structure(wanted)) << "got " << ir::print(got) << "\nwanted " << ir::print(wanted);
  if (before.mesh()) return;
  const std::vector<Literal> old_values = evaluated(before), new_values = evaluated(got);
  ASSERT_EQ(old_values.size(), new_values.size());
  for (std::size_t i = 0; i < old_values.size(); ++i)
    EXPECT_TRUE(same_values(old_values[i], new_values[i])) << "result " << i << "\n"
                                                           << old_values[i] << "\n"
                                                           << new_values[i];
}

}  // namespace systole::pass_check
