#pragma once

// Work on a product of our own that joined a kernel over rows. What is wanted by others too, as a masked
// gradient is summed for a bias and multiplied for the weights, is better done where the product is made: the
// others do not wait for the sums, and the product itself is not stored for the sums alone. So is a judgement
// of the whole product, whether all of it is finite, say: nobody reads it again for that.

#include <cstdint>
#include <vector>

#include "compile/groups.h"
#include "systole/ir/graph.h"

namespace systole::lower {

// The nodes of `rows` that the kernel of `product` shall have, in the graph's order. The product waits for
// nothing more than before, and the rows are handed nothing that was not stored before.
std::vector<std::int32_t> work_on_product(const ir::Graph& graph, Groups& groups, std::int32_t product,
                                          std::int32_t rows);

// The nodes of `rows` that make one truth of all elements of `product`, the reduction last; none when that is
// not all it reduces, or others read what is judged.
std::vector<std::int32_t> judgement_of_product(const ir::Graph& graph, Groups& groups, std::int32_t product,
                                               std::int32_t rows);

}  // namespace systole::lower
