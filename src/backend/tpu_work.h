#pragma once

// The contractions of a program as one device of a TPU does them, and what their sizes and dtypes cost.

#include <map>
#include <string>
#include <vector>

#include "systole/backend/tpu.h"
#include "systole/base/dtype.h"
#include "systole/ir/graph.h"
#include "systole/runtime.h"

namespace systole::tpu {

class Work {
 public:
  double flops() const;                // of contractions
  double flops_of(DType dtype) const;  // … of operands of this dtype
  // … of all rounds of loops but the first, which is what a compiler leaves out that counts bodies once.
  double repeated_flops() const { return repeated_flops_; }
  std::vector<Waste> waste() const;  // those that are padded, the largest first
  std::vector<std::string> advice(runtime::Math math) const;

  // One contraction, run `times` times: a product of `groups` M×K by K×N.
  struct Sizes {
    double groups = 1, m = 1, n = 1, k = 1;
    bool m_split = false, n_split = false, k_split = false;  // shared with other devices
    double flops = 0;                                        // of one run
  };
  void add(const std::string& where, DType dtype, const Sizes& sizes, double times, int matrix_unit);
  void see(DType dtype) { seen_ = seen_ | dtype; }

 private:
  std::map<std::string, Waste> by_place_;
  std::map<DType, double> by_dtype_;
  double repeated_flops_ = 0;
  DTypeSet seen_;
};

// `graph` is static and has no composites. Loops count as often as they run, those of unknown length once.
Work work_of(const ir::Graph& graph, int matrix_unit);

}  // namespace systole::tpu
