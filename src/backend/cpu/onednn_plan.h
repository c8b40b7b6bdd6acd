#pragma once

// Primitives of oneDNN one after another, as a LibraryCall: where each one's arrays lie is said once, when
// the plan is made; a run only fills in addresses. An input that the library wants in another order is packed
// by the first primitive, and kept so as long as it comes again unchanged.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/library_call.h"
#include "backend/cpu/onednn_api.h"
#include "compile/target.h"

namespace systole::cpu {

// Multiplications below which calling the library takes longer than the work.
inline constexpr std::int64_t kWorthACall = 20'000;
// Threads that so many are worth.
int library_threads(std::int64_t multiplications);

// Where an array lies: in an input, an output, the workspace, where a kernel was packed, or in the plan.
struct Place {
  enum class Kind { input, output, workspace, packed, number };
  Kind kind = Kind::input;
  std::size_t index = 0;
  std::int64_t offset = 0;  // in bytes
};
inline Place input(std::size_t i, std::int64_t offset = 0) { return {Place::Kind::input, i, offset}; }
inline Place output(std::size_t i) { return {Place::Kind::output, i, 0}; }
inline Place moved(Place place, std::int64_t bytes) {
  place.offset += bytes;
  return place;
}

struct Use {
  int name = 0;  // of the argument
  dnnl::OwnedDescription array;
  Place place;
};

struct Stage {
  dnnl::OwnedPrimitive primitive;
  std::vector<Use> uses;
  std::int64_t packed = -1;  // the input that it brings into the library's order, and nothing else
  std::int64_t packed_bytes = 0;
};

// Made for a number of threads, which that of multiplications (or of what takes as long) decides.
class Plan final : public LibraryCall {
 public:
  explicit Plan(std::int64_t multiplications);
  std::unique_ptr<LibraryRun> new_run() const override;
  bool keeps_inputs() const override { return stages_.front().packed >= 0; }
  std::int64_t workspace() const { return workspace_; }

  Place scratch(std::int64_t bytes);
  Place number(float value);  // an array of one
  void add(const dnnl::PrimitiveDescriptionObject* what, std::vector<Use> uses);
  void copy(const dnnl::DescriptionObject* from, Place from_place, const dnnl::DescriptionObject* to,
            Place to_place);
  void sum(const dnnl::DescriptionObject* array, const std::vector<Place>& from, Place to);
  // The only one, and first: an input in another order.
  Place packed(const dnnl::DescriptionObject* from, Place from_place, const dnnl::DescriptionObject* to);

 private:
  const int threads_;
  std::vector<Stage> stages_;
  std::vector<float> numbers_;
  std::int64_t workspace_ = 0;
};

dnnl::OwnedDescription copy_of(const dnnl::DescriptionObject* array);
dnnl::OwnedAttributes attributes();  // with a scratchpad of ours
dnnl::OwnedPostOps post_ops();
inline int post_op(int place) { return dnnl::kPostOp * (place + 1) | dnnl::kSecondSource; }  // its array
// Adds an array of this description to the result, as the only post-op.
void add_array(dnnl::Attributes to, const dnnl::DescriptionObject* array);

// The operand of a region's anchor among its inputs; -1: it is computed.
std::int64_t input_of(const lower::Region& region, std::size_t operand);

// One of `call` and `reason` is empty.
struct Made {
  std::shared_ptr<const LibraryCall> call;
  std::int64_t workspace = 0;
  std::string name, reason;
};
inline Made refused(std::string reason) { return {nullptr, 0, {}, std::move(reason)}; }
inline Made made_of(std::shared_ptr<const Plan> plan, std::string name) {
  const std::int64_t workspace = plan->workspace();
  return {std::move(plan), workspace, std::move(name), {}};
}

}  // namespace systole::cpu
