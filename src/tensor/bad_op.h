#pragma once

// Where numbers go bad: a graph evaluated op by op on the host, kernels of the program's own on the device,
// until an op with finite operands gives a result that is not.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::recording {

enum class Badness { finite, infinite, nan };

struct Look {
  Badness badness = Badness::finite;
  std::int64_t at = -1;  // the first bad element, of the worst kind
};
Look look(const Literal& value);
std::string place_text(const Shape& shape, std::int64_t at);   // "[3,7]"
std::string number_text(double number);                        // "nan", "inf", "-inf"
std::string bad_text(const Literal& value, const Look& seen);  // "nan at [3,7]", "-inf at [0]"

// A sentence such as "log of f32[64,10] in the loss gives nan at [3,7] from -0.25; the last parameter before
// it is fc2.bias", or an empty text when everything is finite on the host. `names` are the inputs'; one that
// holds NaN is named first; one that holds an infinite number, which may be meant, only when nothing else
// explains the result. A kernel that does not run on the device is named as the end of the search.
// `held_at` says what an input holds, unless its text is empty.
using HeldAt = std::function<std::string(std::size_t input, const Literal& value, const Look& seen)>;
std::string first_bad_op(const ir::Graph& graph, std::vector<Literal> inputs, std::vector<std::string> names,
                         const std::string& device, const HeldAt& held_at = {});

}  // namespace systole::recording
