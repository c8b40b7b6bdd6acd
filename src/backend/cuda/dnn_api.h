#pragma once

// cudnn_graph.h, as far as it is used: its numbers, and objects of its backend. tests/cuda compares the
// numbers with the header where there is one.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"

namespace systole::cuda::dnn {

using Handle = Opaque<struct HandleObject>;
using Descriptor = void*;

enum Kind : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kPlan = 5,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
};

enum Attribute : int {
  kPointwiseMode = 0,
  kPointwiseComputeType = 1,
  kPointwiseAxis = 9,
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
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303,
  kMatmulComputeType = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionComputeType = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201,
};

enum Type : int {
  kHandleType = 0,
  kDataTypeType = 1,
  kBooleanType = 2,
  kInt64Type = 3,
  kFloatType = 4,
  kDoubleType = 5,
  kPointerType = 6,
  kConvolutionModeType = 7,
  kHeuristicModeType = 8,
  kNoteType = 11,
  kPointwiseModeType = 14,
  kDescriptorType = 15,
  kReductionOperatorType = 18,
};

enum : int {
  kCrossCorrelation = 1,
  kHeuristicA = 3,
  kHeuristicFallback = 2,
  kFloat = 0,
  kDouble = 1,
  kHalf = 2,
  kInt32 = 4,
  kBFloat16 = 9,
  kBoolean = 11,
  kNoteTensorCore = 0,
  kNoteDownConverts = 1,
  kNoteReducedPrecision = 2,
  kNoteFft = 3,
  kNoteNondeterministic = 4,
  kNoteWinograd = 5,
  kAdd = 0,  // modes of pointwise work
  kMul = 1,
  kDiv = 6,
  kSub = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kRelu = 100,
  kIsGreaterOrEqual = 303,
  kIndex = 501,
  kSelect = 601,
  kReduceAdd = 0,
  kReduceMax = 3,
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
void* symbol(const char* name);  // of the library; null when it has none of that name
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
