#pragma once

// Recorded work. A Record is one node: an op to be run, one result of an op with several, a number from the
// host, a value that is there, or the placeholder of a traced function's input. Records are immutable but for
// one change, from pending to evaluated, which happens under the lock of evaluate.cpp. They form a DAG by
// references from result to operand; references are counted and the count going to zero frees a chain of any
// length without recursion.

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "systole/base/small_vector.h"
#include "systole/ir/graph.h"
#include "systole/runtime.h"
#include "systole/tensor/tensor.h"

namespace systole::recording {

enum class Kind : std::uint8_t {
  op,           // pending work
  result,       // result `index` of the op operand 0
  constant,     // part of the program: baked into graphs
  host,         // numbers of the program: an input outside compile(fn), a constant in it
  value,        // a buffer
  placeholder,  // an input of the trace it belongs to
  failed        // its run threw; reading rethrows
};

// What few records need.
struct Extra {
  ir::Attrs attrs;
  std::vector<ir::GraphRef> graphs;
  std::vector<Type> types;                  // of all results, when there are several
  Literal literal;                          // of constants and host numbers
  double number = 0;                        // of scalars made from a floating-point number
  std::int64_t integer = 0;                 // of scalars made from an integer or a bool
  std::exception_ptr error;                 // of failed
  std::vector<runtime::BufferRef> buffers;  // of all results, of an evaluated op with several
};

struct Record {
  std::atomic<std::uint32_t> references{1};
  std::uint32_t trace = 0;  // the frame it was recorded in; 0: none
  std::atomic<Kind> kind{Kind::op};
  ir::Op op = ir::Op::constant;
  bool weak = false;  // a number (or made of numbers only) whose dtype gives way
  std::uint8_t device = 0;
  std::uint16_t thread = 0;
  std::uint32_t index = 0;    // of a result
  std::int64_t sequence = 0;  // in its thread
  std::int64_t oldest = 0;    // the lowest sequence of pending work of this thread below it
  Type type;
  SmallVector<Record*, 3> operands;  // owned: one reference each
  std::unique_ptr<Extra> extra;      // null: no attributes
  runtime::BufferRef buffer;         // of a value

  // Scratch of a walk, under the lock of evaluate.cpp.
  std::uint64_t visit = 0;
  std::int32_t position = 0;
  std::uint32_t uses = 0;

  // The number of the Variable whose gradient this is (gradient_marks.h); 0: none.
  std::atomic<std::uint32_t> gradient_of{0};

  const ir::Attrs& attrs() const;
  bool pending() const {
    const Kind k = kind.load(std::memory_order_acquire);
    return k == Kind::op || k == Kind::result;
  }
};

inline constexpr std::uint8_t kAnyDevice = 255;     // of numbers: goes where its company is
inline constexpr std::int64_t kFlushLength = 4096;  // pending work of one chain before it is run

// A record with no operands yet; the caller fills in the rest before anyone else sees it.
RecordRef new_record(Kind kind, Type type);

// One op with operands of the types it needs (no promotion, no broadcasting). Throws what inference throws.
Tensor record(ir::Op op, std::initializer_list<Tensor> operands, ir::Attrs attrs = {});
std::vector<Tensor> record_multi(ir::Op op, std::span<const Tensor> operands, ir::Attrs attrs = {},
                                 std::vector<ir::GraphRef> graphs = {});

// Elementwise ops: dtypes promoted (numbers are weak), shapes broadcast like numpy.
Tensor unary(ir::Op op, const Tensor& x);
Tensor binary(ir::Op op, const Tensor& a, const Tensor& b);

// Whatever ops:: can build: `build` gets the operands as values of a scratch graph and returns the results.
using Build = std::function<ir::Values(ir::Graph&, const ir::Values&)>;
std::vector<Tensor> record_built(std::span<const Tensor> operands, const Build& build);
Tensor built(std::initializer_list<Tensor> operands,
             const std::function<ir::Value(const ir::Values&)>& build);

// record_multi without inference, for types that are known.
std::vector<Tensor> record_typed(ir::Op op, std::span<const Tensor> operands, std::vector<Type> types,
                                 ir::Attrs attrs, std::vector<ir::GraphRef> graphs);

// The nodes of a graph recorded with `arguments` for its inputs; returns its outputs.
std::vector<Tensor> replay(const ir::Graph& graph, std::span<const Tensor> arguments);

// A replay whose inputs are given little by little: advance() records what has all its operands.
class Replay {
 public:
  explicit Replay(const ir::Graph& graph);  // the graph must outlive it
  void give(std::size_t input, const Tensor& value);
  void advance();
  Tensor output(std::size_t i) const;  // undefined when an input is missing

 private:
  void use(ir::ValueId v);

  const ir::Graph* graph_;
  std::vector<std::vector<Tensor>> values_;  // by node; empty: not yet
  std::vector<int> uses_;                    // by node: readers and outputs to come
};

// A constant of the program: never an input, so only for numbers that the code itself fixes.
Tensor constant(Literal value);
Tensor constant_like(const Tensor& x, double value);  // a scalar of x's dtype
Tensor filled(const Type& type, double value);        // that scalar everywhere

// Dtype promotion with weak numbers: the tensors converted to the dtype they share.
DType common_dtype(std::span<const Tensor> tensors, std::string_view where);
Tensor as_dtype(const Tensor& x, DType dtype);  // a number is made anew in the dtype, not converted
Tensor as_float(const Tensor& x);               // integers and bools as f32, floats as they are

// A number from the host.
Tensor scalar(double value, DType dtype, bool weak);
Tensor scalar(std::int64_t value, DType dtype, bool weak);

// A value that is there.
Tensor from_buffer(runtime::BufferRef buffer);

Tensor failed(const Type& type, std::exception_ptr error);  // reading it throws the error

void check_trace(const Record& record, std::string_view where);  // throws unless it may be used here
const Record& checked(const Tensor& x, std::string_view where);  // throws kInvalidArgument when undefined

}  // namespace systole::recording
