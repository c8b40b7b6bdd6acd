#pragma once

// cudnn_graph.h, as far as it is used: its numbers, and objects of its backend. tests/cuda compares the
// numbers with the header where there is one.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"

namespace systole::cuda::dnn {

using Handle = struct HandleObject*;
using Descriptor = void*;

enum Kind : int {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kPlan = 5,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};

enum Attribute : int {
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatialDims = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kDataAlpha = 706,
  kDataBeta = 707,
  kDataConvolution = 708,
  kDataW = 709,
  kDataDx = 710,
  kDataDy = 711,
  kFilterAlpha = 712,
  kFilterBeta = 713,
  kFilterConvolution = 714,
  kFilterDw = 715,
  kFilterX = 716,
  kFilterDy = 717,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303,
};

enum Type : int {
  kHandleType = 0,
  kDataTypeType = 1,
  kInt64Type = 3,
  kFloatType = 4,
  kPointerType = 6,
  kConvolutionModeType = 7,
  kHeuristicModeType = 8,
  kNoteType = 11,
  kDescriptorType = 15,
};

enum : int {
  kCrossCorrelation = 1,
  kHeuristicA = 3,
  kHeuristicFallback = 2,
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kBFloat16 = 9,
  kNoteTensorCore = 0,
  kNoteDownConverts = 1,
  kNoteReducedPrecision = 2,
  kNoteFft = 3,
  kNoteNondeterministic = 4,
  kNoteWinograd = 5,
};

struct Api {
  int (*create)(Handle*) = nullptr;
  int (*set_stream)(Handle, Stream) = nullptr;
  std::size_t (*version)() = nullptr;
  const char* (*words)(int) = nullptr;
  void (*last_error)(char*, std::size_t) = nullptr;
  int (*new_descriptor)(int, Descriptor*) = nullptr;
  int (*free_descriptor)(Descriptor) = nullptr;
  int (*finalize)(Descriptor) = nullptr;
  int (*set)(Descriptor, int, int, std::int64_t, const void*) = nullptr;
  int (*get)(Descriptor, int, int, std::int64_t, std::int64_t*, void*) = nullptr;
  int (*execute)(Handle, Descriptor, Descriptor) = nullptr;
};

std::string absence();
const Api& api();
void check(int status,
           const char* call);  // throws kUnsupported with cuDNN's words, kInternal for its own faults

// A descriptor of cuDNN's backend, freed with it.
class Object {
 public:
  explicit Object(Kind kind);
  ~Object();
  Object(Object&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = nullptr; }
  Object& operator=(Object&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  Descriptor get() const { return descriptor_; }
  void set(Attribute name, Type type, const void* value, std::int64_t count = 1);
  void set_number(Attribute name, std::int64_t value) { set(name, kInt64Type, &value); }
  void set_numbers(Attribute name, const std::vector<std::int64_t>& values) {
    set(name, kInt64Type, values.data(), static_cast<std::int64_t>(values.size()));
  }
  void set_word(Attribute name, Type type, int value) { set(name, type, &value); }  // of an enumeration
  void set_object(Attribute name, const Object& value);
  void finalize();
  std::int64_t number(Attribute name) const;

 private:
  Descriptor descriptor_ = nullptr;
};

}  // namespace systole::cuda::dnn
