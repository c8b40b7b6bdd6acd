// The numbers, types and names that the CUDA backend has written down, against NVIDIA's headers where they
// are. Every constant that they hold must be compared here.

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <type_traits>

#include "backend/cuda/blas_api.h"
#include "backend/cuda/cupti_api.h"
#include "backend/cuda/dnn_api.h"
#include "backend/cuda/dnn_layers_api.h"
#include "backend/cuda/driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#if __has_include(<cuda.h>) && __has_include(<cupti.h>)
#include <cupti.h>
#define SYSTOLE_HAS_CUPTI 1
#endif

namespace systole::cuda {
namespace {

#if __has_include(<cuda.h>) || __has_include(<cublasLt.h>) || __has_include(<cudnn.h>)

// Whether two types are passed alike: pointers, or numbers of one size.
template <class Ours, class Theirs>
constexpr bool is_alike() {
  if constexpr (std::is_same_v<Ours, Theirs> || (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>))
    return true;
  else
    return (std::is_integral_v<Ours> || std::is_enum_v<Ours>) &&
           (std::is_integral_v<Theirs> || std::is_enum_v<Theirs>) && sizeof(Ours) == sizeof(Theirs);
}

template <class Ours, class Theirs>
struct Alike : std::false_type {};
template <class R, class... P, class S, class... Q>
struct Alike<R (*)(P...), S (*)(Q...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(P) != sizeof...(Q))
      return false;
    else
      return is_alike<R, S>() && (is_alike<P, Q>() && ...);
  }();
};

// Names of constants as they stand in a header of ours.
std::set<std::string> constants_of(const std::string& file) {
  std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/src/backend/cuda/" + file);
  EXPECT_TRUE(in.good()) << file;
  std::set<std::string> names;
  const std::regex constant(R"(^\s*(k[A-Z]\w*) = [^,;]+,)");
  std::smatch found;
  for (std::string line; std::getline(in, line);)
    if (std::regex_search(line, found, constant)) names.insert(found[1]);
  return names;
}

class Comparison {
 public:
  explicit Comparison(const std::string& file) : file_(file), left_(constants_of(file)) {}
  ~Comparison() {
    for (const std::string& name : left_) ADD_FAILURE() << file_ << ": " << name << " is not compared";
  }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;
  void same(const char* name, long ours, const char* their_name, long theirs) {
    EXPECT_EQ(ours, theirs) << name << " and " << their_name;
    left_.erase(name);
  }

 private:
  const std::string file_;
  std::set<std::string> left_;
};

#define SYSTOLE_SAME(ours, theirs) \
  comparison.same(#ours, static_cast<long>(ours), #theirs, static_cast<long>(theirs))

#endif

#if __has_include(<cuda.h>)

#define SYSTOLE_TEXT_OF(x) #x
#define SYSTOLE_TEXT(x) SYSTOLE_TEXT_OF(x)

// The name that the header gives a function now, and the one that is looked for.
void expect_named(const std::string& name, const std::string& symbol) {
  if (name == "cuEventElapsedTime_v2") return;  // takes the same; only its errors are new
  EXPECT_EQ(name, symbol);
}

TEST(CudaHeaders, FunctionsOfTheDriverTakeWhatTheHeaderSays){
#define SYSTOLE_COMPARE(name, symbol, parameters)                                               \
  EXPECT_TRUE((Alike<Status(*) parameters, decltype(&::symbol)>::value)) << SYSTOLE_TEXT(name); \
  expect_named(SYSTOLE_TEXT(name), #symbol);
    SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_COMPARE)
#undef SYSTOLE_COMPARE
}

TEST(CudaHeaders, NumbersOfTheDriverAreTheHeaders) {
  Comparison comparison("driver.h");
  SYSTOLE_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  SYSTOLE_SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
  SYSTOLE_SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  SYSTOLE_SAME(kPoolWaitsForMemory, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
  SYSTOLE_SAME(kPoolReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  SYSTOLE_SAME(kPoolReserved, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  SYSTOLE_SAME(kPoolUsed, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  SYSTOLE_SAME(kMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  SYSTOLE_SAME(kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
  SYSTOLE_SAME(kMaxBlockX, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  SYSTOLE_SAME(kMaxBlockX + 2, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  SYSTOLE_SAME(kMaxGridX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  SYSTOLE_SAME(kMaxGridX + 2, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  SYSTOLE_SAME(kSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  SYSTOLE_SAME(kConstantBytes, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  SYSTOLE_SAME(kWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  SYSTOLE_SAME(kClockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  SYSTOLE_SAME(kL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  SYSTOLE_SAME(kThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  SYSTOLE_SAME(kSharedPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  SYSTOLE_SAME(kRegistersPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  SYSTOLE_SAME(kSharedPerBlockOptIn, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  SYSTOLE_SAME(kFunctionMaxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  SYSTOLE_SAME(kFunctionShared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  SYSTOLE_SAME(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
  SYSTOLE_SAME(kFunctionMaxShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  SYSTOLE_SAME(kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  SYSTOLE_SAME(kBlocksPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  SYSTOLE_SAME(kReservedSharedPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  SYSTOLE_SAME(kComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  SYSTOLE_SAME(kComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  SYSTOLE_SAME(kMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  SYSTOLE_SAME(kOnDevice, CU_MEM_LOCATION_TYPE_DEVICE);
  SYSTOLE_SAME(kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  SYSTOLE_SAME(kSuccess, CUDA_SUCCESS);
  SYSTOLE_SAME(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  SYSTOLE_SAME(kErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
  SYSTOLE_SAME(kErrorNoDevice, CUDA_ERROR_NO_DEVICE);
  SYSTOLE_SAME(kErrorNotFound, CUDA_ERROR_NOT_FOUND);
  SYSTOLE_SAME(kErrorNotReady, CUDA_ERROR_NOT_READY);
  SYSTOLE_SAME(kErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
  static_assert(sizeof(PoolAccess) == sizeof(CUmemAccessDesc));
  static_assert(offsetof(PoolAccess, device) == offsetof(CUmemAccessDesc, location.id));
  static_assert(offsetof(PoolAccess, flags) == offsetof(CUmemAccessDesc, flags));
  SYSTOLE_SAME(kLaunchEarly, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
  static_assert(offsetof(LaunchAttribute, is_allowed) == offsetof(CUlaunchAttribute, value));
  static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
  static_assert(offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
  static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
  static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
  static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
  static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
}

#else

TEST(CudaHeaders, AreCompared) { GTEST_SKIP() << "cuda.h is not on this machine"; }

#endif

#if __has_include(<cublasLt.h>)

TEST(CublasLtHeader, HasTheNumbersThatAreUsed) {
  using namespace lt;
  Comparison comparison("blas_api.h");
  SYSTOLE_SAME(kTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
  SYSTOLE_SAME(kTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
  SYSTOLE_SAME(kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
  SYSTOLE_SAME(kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  SYSTOLE_SAME(kBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  SYSTOLE_SAME(kAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  SYSTOLE_SAME(kAuxStride, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  SYSTOLE_SAME(kAuxBatchStride, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
  SYSTOLE_SAME(kAuxType, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE);
  SYSTOLE_SAME(kBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  SYSTOLE_SAME(kBatchOffset, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  SYSTOLE_SAME(kMostWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  SYSTOLE_SAME(kAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  SYSTOLE_SAME(kAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  SYSTOLE_SAME(kAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  SYSTOLE_SAME(kAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  SYSTOLE_SAME(kNothingOnResult, CUBLASLT_EPILOGUE_DEFAULT);
  SYSTOLE_SAME(kRelu, CUBLASLT_EPILOGUE_RELU);
  SYSTOLE_SAME(kBias, CUBLASLT_EPILOGUE_BIAS);
  SYSTOLE_SAME(kGelu, CUBLASLT_EPILOGUE_GELU);
  SYSTOLE_SAME(kAux, CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU);
  SYSTOLE_SAME(kGeluGradient, CUBLASLT_EPILOGUE_DGELU);
  SYSTOLE_SAME(kBiasGradient, CUBLASLT_EPILOGUE_DGELU_BGRAD & ~CUBLASLT_EPILOGUE_DGELU);
  SYSTOLE_SAME(kSumOfA, CUBLASLT_EPILOGUE_BGRADA);
  SYSTOLE_SAME(kSumOfB, CUBLASLT_EPILOGUE_BGRADB);
  SYSTOLE_SAME(kCompute32F, CUBLAS_COMPUTE_32F);
  SYSTOLE_SAME(kCompute32FTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
  SYSTOLE_SAME(kCompute64F, CUBLAS_COMPUTE_64F);
  SYSTOLE_SAME(kTypeF32, CUDA_R_32F);
  SYSTOLE_SAME(kTypeF64, CUDA_R_64F);
  SYSTOLE_SAME(kTypeF16, CUDA_R_16F);
  SYSTOLE_SAME(kTypeBf16, CUDA_R_16BF);
}

TEST(CublasLtHeader, HasTheFunctionsAsTheyAreCalled) {
  using namespace lt;
  EXPECT_TRUE((Alike<decltype(Api::create), decltype(&cublasLtCreate)>::value));
  EXPECT_TRUE((Alike<decltype(Api::version), decltype(&cublasLtGetVersion)>::value));
  EXPECT_TRUE((Alike<decltype(Api::words), decltype(&cublasLtGetStatusString)>::value));
  EXPECT_TRUE((Alike<decltype(Api::new_description), decltype(&cublasLtMatmulDescCreate)>::value));
  EXPECT_TRUE((Alike<decltype(Api::set_description), decltype(&cublasLtMatmulDescSetAttribute)>::value));
  EXPECT_TRUE((Alike<decltype(Api::free_description), decltype(&cublasLtMatmulDescDestroy)>::value));
  EXPECT_TRUE((Alike<decltype(Api::new_layout), decltype(&cublasLtMatrixLayoutCreate)>::value));
  EXPECT_TRUE((Alike<decltype(Api::set_layout), decltype(&cublasLtMatrixLayoutSetAttribute)>::value));
  EXPECT_TRUE((Alike<decltype(Api::free_layout), decltype(&cublasLtMatrixLayoutDestroy)>::value));
  EXPECT_TRUE((Alike<decltype(Api::new_preference), decltype(&cublasLtMatmulPreferenceCreate)>::value));
  EXPECT_TRUE((Alike<decltype(Api::set_preference), decltype(&cublasLtMatmulPreferenceSetAttribute)>::value));
  EXPECT_TRUE((Alike<decltype(Api::free_preference), decltype(&cublasLtMatmulPreferenceDestroy)>::value));
  EXPECT_TRUE((Alike<decltype(Api::heuristic), decltype(&cublasLtMatmulAlgoGetHeuristic)>::value));
  EXPECT_TRUE((Alike<decltype(Api::multiply), decltype(&cublasLtMatmul)>::value));
  static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
  static_assert(sizeof(Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
  static_assert(offsetof(Heuristic, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  static_assert(offsetof(Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
  static_assert(offsetof(Heuristic, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
}

#else

TEST(CublasLtHeader, IsCompared) { GTEST_SKIP() << "cublasLt.h is not on this machine"; }

#endif

#if __has_include(<cudnn.h>)

TEST(CudnnHeader, HasTheNumbersThatAreUsed) {
  using namespace dnn;
  Comparison comparison("dnn_api.h");
  SYSTOLE_SAME(kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  SYSTOLE_SAME(kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  SYSTOLE_SAME(kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  SYSTOLE_SAME(kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  SYSTOLE_SAME(kEngineHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  SYSTOLE_SAME(kPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  SYSTOLE_SAME(kForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  SYSTOLE_SAME(kBackwardFilter, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  SYSTOLE_SAME(kBackwardData, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  SYSTOLE_SAME(kPointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  SYSTOLE_SAME(kGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  SYSTOLE_SAME(kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  SYSTOLE_SAME(kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  SYSTOLE_SAME(kMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  SYSTOLE_SAME(kMatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  SYSTOLE_SAME(kReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  SYSTOLE_SAME(kReductionOperation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  SYSTOLE_SAME(kReshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  SYSTOLE_SAME(kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE);
  SYSTOLE_SAME(kPointwiseComputeType, CUDNN_ATTR_POINTWISE_MATH_PREC);
  SYSTOLE_SAME(kPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
  SYSTOLE_SAME(kConvolutionComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  SYSTOLE_SAME(kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
  SYSTOLE_SAME(kConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  SYSTOLE_SAME(kConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  SYSTOLE_SAME(kConvolutionPostPaddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  SYSTOLE_SAME(kConvolutionPrePaddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  SYSTOLE_SAME(kConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  SYSTOLE_SAME(kHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE);
  SYSTOLE_SAME(kHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  SYSTOLE_SAME(kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
  SYSTOLE_SAME(kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
  SYSTOLE_SAME(kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  SYSTOLE_SAME(kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  SYSTOLE_SAME(kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  SYSTOLE_SAME(kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
  SYSTOLE_SAME(kForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  SYSTOLE_SAME(kForwardConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  SYSTOLE_SAME(kForwardW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  SYSTOLE_SAME(kForwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  SYSTOLE_SAME(kForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
  SYSTOLE_SAME(kDataAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
  SYSTOLE_SAME(kDataBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
  SYSTOLE_SAME(kDataConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
  SYSTOLE_SAME(kDataW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
  SYSTOLE_SAME(kDataDx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
  SYSTOLE_SAME(kDataDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
  SYSTOLE_SAME(kFilterAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
  SYSTOLE_SAME(kFilterBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  SYSTOLE_SAME(kFilterConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
  SYSTOLE_SAME(kFilterDw, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
  SYSTOLE_SAME(kFilterX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
  SYSTOLE_SAME(kFilterDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
  SYSTOLE_SAME(kPointwiseDescriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  SYSTOLE_SAME(kPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  SYSTOLE_SAME(kPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  SYSTOLE_SAME(kPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  SYSTOLE_SAME(kPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  SYSTOLE_SAME(kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  SYSTOLE_SAME(kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  SYSTOLE_SAME(kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  SYSTOLE_SAME(kTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
  SYSTOLE_SAME(kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
  SYSTOLE_SAME(kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
  SYSTOLE_SAME(kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  SYSTOLE_SAME(kTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  SYSTOLE_SAME(kTensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  SYSTOLE_SAME(kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  SYSTOLE_SAME(kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  SYSTOLE_SAME(kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  SYSTOLE_SAME(kEngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  SYSTOLE_SAME(kMatmulComputeType, CUDNN_ATTR_MATMUL_COMP_TYPE);
  SYSTOLE_SAME(kMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  SYSTOLE_SAME(kMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  SYSTOLE_SAME(kMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  SYSTOLE_SAME(kMatmulDescriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC);
  SYSTOLE_SAME(kReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR);
  SYSTOLE_SAME(kReductionComputeType, CUDNN_ATTR_REDUCTION_COMP_TYPE);
  SYSTOLE_SAME(kReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  SYSTOLE_SAME(kReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  SYSTOLE_SAME(kReductionDescriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
  SYSTOLE_SAME(kReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  SYSTOLE_SAME(kReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  SYSTOLE_SAME(kHandleType, CUDNN_TYPE_HANDLE);
  SYSTOLE_SAME(kDataTypeType, CUDNN_TYPE_DATA_TYPE);
  SYSTOLE_SAME(kBooleanType, CUDNN_TYPE_BOOLEAN);
  SYSTOLE_SAME(kInt64Type, CUDNN_TYPE_INT64);
  SYSTOLE_SAME(kFloatType, CUDNN_TYPE_FLOAT);
  SYSTOLE_SAME(kDoubleType, CUDNN_TYPE_DOUBLE);
  SYSTOLE_SAME(kPointerType, CUDNN_TYPE_VOID_PTR);
  SYSTOLE_SAME(kConvolutionModeType, CUDNN_TYPE_CONVOLUTION_MODE);
  SYSTOLE_SAME(kHeuristicModeType, CUDNN_TYPE_HEUR_MODE);
  SYSTOLE_SAME(kNoteType, CUDNN_TYPE_NUMERICAL_NOTE);
  SYSTOLE_SAME(kPointwiseModeType, CUDNN_TYPE_POINTWISE_MODE);
  SYSTOLE_SAME(kDescriptorType, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  SYSTOLE_SAME(kReductionOperatorType, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
  SYSTOLE_SAME(kCrossCorrelation, CUDNN_CROSS_CORRELATION);
  SYSTOLE_SAME(kHeuristicA, CUDNN_HEUR_MODE_A);
  SYSTOLE_SAME(kHeuristicFallback, CUDNN_HEUR_MODE_FALLBACK);
  SYSTOLE_SAME(kFloat, CUDNN_DATA_FLOAT);
  SYSTOLE_SAME(kDouble, CUDNN_DATA_DOUBLE);
  SYSTOLE_SAME(kHalf, CUDNN_DATA_HALF);
  SYSTOLE_SAME(kInt32, CUDNN_DATA_INT32);
  SYSTOLE_SAME(kBFloat16, CUDNN_DATA_BFLOAT16);
  SYSTOLE_SAME(kBoolean, CUDNN_DATA_BOOLEAN);
  SYSTOLE_SAME(kNoteTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  SYSTOLE_SAME(kNoteDownConverts, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  SYSTOLE_SAME(kNoteReducedPrecision, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  SYSTOLE_SAME(kNoteFft, CUDNN_NUMERICAL_NOTE_FFT);
  SYSTOLE_SAME(kNoteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  SYSTOLE_SAME(kNoteWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
  SYSTOLE_SAME(kAdd, CUDNN_POINTWISE_ADD);
  SYSTOLE_SAME(kMul, CUDNN_POINTWISE_MUL);
  SYSTOLE_SAME(kDiv, CUDNN_POINTWISE_DIV);
  SYSTOLE_SAME(kSub, CUDNN_POINTWISE_SUB);
  SYSTOLE_SAME(kExp, CUDNN_POINTWISE_EXP);
  SYSTOLE_SAME(kLog, CUDNN_POINTWISE_LOG);
  SYSTOLE_SAME(kIdentity, CUDNN_POINTWISE_IDENTITY);
  SYSTOLE_SAME(kRelu, CUDNN_POINTWISE_RELU_FWD);
  SYSTOLE_SAME(kIsGreaterOrEqual, CUDNN_POINTWISE_CMP_GE);
  SYSTOLE_SAME(kIndex, CUDNN_POINTWISE_GEN_INDEX);
  SYSTOLE_SAME(kSelect, CUDNN_POINTWISE_BINARY_SELECT);
  SYSTOLE_SAME(kReduceAdd, CUDNN_REDUCE_TENSOR_ADD);
  SYSTOLE_SAME(kReduceMax, CUDNN_REDUCE_TENSOR_MAX);
}

TEST(CudnnHeader, HasTheFunctionsAsTheyAreCalled) {
  using dnn::Api;
  EXPECT_TRUE((Alike<decltype(Api::create), decltype(&cudnnCreate)>::value));
  EXPECT_TRUE((Alike<decltype(Api::set_stream), decltype(&cudnnSetStream)>::value));
  EXPECT_TRUE((Alike<decltype(Api::version), decltype(&cudnnGetVersion)>::value));
  EXPECT_TRUE((Alike<decltype(Api::words), decltype(&cudnnGetErrorString)>::value));
  EXPECT_TRUE((Alike<decltype(Api::last_error), decltype(&cudnnGetLastErrorString)>::value));
  EXPECT_TRUE((Alike<decltype(Api::new_descriptor), decltype(&cudnnBackendCreateDescriptor)>::value));
  EXPECT_TRUE((Alike<decltype(Api::free_descriptor), decltype(&cudnnBackendDestroyDescriptor)>::value));
  EXPECT_TRUE((Alike<decltype(Api::finalize), decltype(&cudnnBackendFinalize)>::value));
  EXPECT_TRUE((Alike<decltype(Api::set), decltype(&cudnnBackendSetAttribute)>::value));
  EXPECT_TRUE((Alike<decltype(Api::get), decltype(&cudnnBackendGetAttribute)>::value));
  EXPECT_TRUE((Alike<decltype(Api::execute), decltype(&cudnnBackendExecute)>::value));
}

TEST(CudnnHeader, HasTheNumbersOfLayers) {
  using namespace dnn;
  Comparison comparison("dnn_layers_api.h");
  SYSTOLE_SAME(kPropagateNan, CUDNN_PROPAGATE_NAN);
  SYSTOLE_SAME(kPoolingMax, CUDNN_POOLING_MAX);
  SYSTOLE_SAME(kPoolingAverageWithPadding, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING);
  SYSTOLE_SAME(kPoolingAverageWithoutPadding, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING);
  SYSTOLE_SAME(kBatchNormSpatial, CUDNN_BATCHNORM_SPATIAL);
  SYSTOLE_SAME(kRnnStandard, CUDNN_RNN_ALGO_STANDARD);
  SYSTOLE_SAME(kRnnLstm, CUDNN_LSTM);
  SYSTOLE_SAME(kRnnGru, CUDNN_GRU);
  SYSTOLE_SAME(kRnnTwoBiases, CUDNN_RNN_DOUBLE_BIAS);
  SYSTOLE_SAME(kRnnOneDirection, CUDNN_UNIDIRECTIONAL);
  SYSTOLE_SAME(kRnnLinearInput, CUDNN_LINEAR_INPUT);
  SYSTOLE_SAME(kRnnInference, CUDNN_FWD_MODE_INFERENCE);
  SYSTOLE_SAME(kRnnTraining, CUDNN_FWD_MODE_TRAINING);
  SYSTOLE_SAME(kWeightGradAdd, CUDNN_WGRAD_MODE_ADD);
  SYSTOLE_SAME(kRnnPacked, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED);
  SYSTOLE_SAME(kMathDefault, CUDNN_DEFAULT_MATH);
  SYSTOLE_SAME(kMathTensorCores, CUDNN_TENSOR_OP_MATH);
  SYSTOLE_SAME(kMathExact, CUDNN_FMA_MATH);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(CudnnHeader, HasTheFunctionsOfLayersAsTheyAreCalled) {
  using namespace dnn;
#define SYSTOLE_COMPARE(name, parameters) \
  EXPECT_TRUE((Alike<int(*) parameters, decltype(&::name)>::value)) << #name;
  SYSTOLE_DNN_LAYER_FUNCTIONS(SYSTOLE_COMPARE)
#undef SYSTOLE_COMPARE
}
#pragma GCC diagnostic pop

#else

TEST(CudnnHeader, IsCompared) { GTEST_SKIP() << "cudnn.h is not on this machine"; }

#endif

#ifdef SYSTOLE_HAS_CUPTI

TEST(CuptiHeader, HasTheNumbersThatAreUsed) {
  using namespace cupti;
  Comparison comparison("cupti_api.h");
  SYSTOLE_SAME(kCopies, CUPTI_ACTIVITY_KIND_MEMCPY);
  SYSTOLE_SAME(kMemsets, CUPTI_ACTIVITY_KIND_MEMSET);
  SYSTOLE_SAME(kKernels, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  SYSTOLE_SAME(kPeerCopies, CUPTI_ACTIVITY_KIND_MEMCPY2);
  SYSTOLE_SAME(kHostToDevice, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  SYSTOLE_SAME(kDeviceToHost, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  SYSTOLE_SAME(kDeviceToDevice, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
  SYSTOLE_SAME(kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  SYSTOLE_SAME(kOfDriver, CUPTI_CB_DOMAIN_DRIVER_API);
  SYSTOLE_SAME(kOfRuntime, CUPTI_CB_DOMAIN_RUNTIME_API);
  SYSTOLE_SAME(kOfResources, CUPTI_CB_DOMAIN_RESOURCE);
  SYSTOLE_SAME(kOnEntry, CUPTI_API_ENTER);
  SYSTOLE_SAME(kNodeCreated, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
  SYSTOLE_SAME(kNodeCloned, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
  SYSTOLE_SAME(kDriverMemset8, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async);
  SYSTOLE_SAME(kDriverMemset32, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async);
  SYSTOLE_SAME(kDriverCopy, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2);
  SYSTOLE_SAME(kDriverLaunch, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  SYSTOLE_SAME(kDriverLaunchCooperative, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel);
  SYSTOLE_SAME(kDriverLaunchEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
  SYSTOLE_SAME(kRuntimeCopy, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
  SYSTOLE_SAME(kRuntimeMemset, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020);
  SYSTOLE_SAME(kRuntimeLaunch, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  SYSTOLE_SAME(kRuntimeLaunchEx, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060);
#if CUPTI_API_VERSION >= 130000
  SYSTOLE_SAME(kRuntimeLaunch13, CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000);
#else
  SYSTOLE_SAME(kRuntimeLaunch13, 505);
#endif
}

TEST(CuptiHeader, HasTheFunctionsAndRecordsAsTheyAreRead) {
  using namespace cupti;
#define SYSTOLE_COMPARE(name, parameters) \
  EXPECT_TRUE((Alike<int(*) parameters, decltype(&::name)>::value)) << #name;
  SYSTOLE_CUPTI_FUNCTIONS(SYSTOLE_COMPARE)
#undef SYSTOLE_COMPARE
  EXPECT_TRUE((Alike<Callback, CUpti_CallbackFunc>::value));
  EXPECT_TRUE((Alike<Request, CUpti_BuffersCallbackRequestFunc>::value));
  EXPECT_TRUE((Alike<Complete, CUpti_BuffersCallbackCompleteFunc>::value));
#if CUPTI_API_VERSION >= 130000
  using Kernel = CUpti_ActivityKernel10;
  using Copy = CUpti_ActivityMemcpy6;
#else
  using Kernel = CUpti_ActivityKernel9;
  using Copy = CUpti_ActivityMemcpy5;
#endif
  using PeerCopy = CUpti_ActivityMemcpyPtoP4;
  using Memset = CUpti_ActivityMemset4;
#define SYSTOLE_SAME_PLACE(Ours, ours, Theirs, theirs)              \
  static_assert(offsetof(Ours, ours) == offsetof(Theirs, theirs) && \
                sizeof(Ours::ours) == sizeof(Theirs::theirs))
  SYSTOLE_SAME_PLACE(KernelRecord, kind, Kernel, kind);
  SYSTOLE_SAME_PLACE(KernelRecord, registers, Kernel, registersPerThread);
  SYSTOLE_SAME_PLACE(KernelRecord, start, Kernel, start);
  SYSTOLE_SAME_PLACE(KernelRecord, end, Kernel, end);
  SYSTOLE_SAME_PLACE(KernelRecord, device, Kernel, deviceId);
  SYSTOLE_SAME_PLACE(KernelRecord, stream, Kernel, streamId);
  SYSTOLE_SAME_PLACE(KernelRecord, grid_x, Kernel, gridX);
  SYSTOLE_SAME_PLACE(KernelRecord, grid_z, Kernel, gridZ);
  SYSTOLE_SAME_PLACE(KernelRecord, block_x, Kernel, blockX);
  SYSTOLE_SAME_PLACE(KernelRecord, block_z, Kernel, blockZ);
  SYSTOLE_SAME_PLACE(KernelRecord, static_shared, Kernel, staticSharedMemory);
  SYSTOLE_SAME_PLACE(KernelRecord, dynamic_shared, Kernel, dynamicSharedMemory);
  SYSTOLE_SAME_PLACE(KernelRecord, local_per_thread, Kernel, localMemoryPerThread);
  SYSTOLE_SAME_PLACE(KernelRecord, call, Kernel, correlationId);
  SYSTOLE_SAME_PLACE(KernelRecord, name, Kernel, name);
  SYSTOLE_SAME_PLACE(KernelRecord, node, Kernel, graphNodeId);
#define SYSTOLE_SAME_MOVE(Ours, Theirs)                  \
  SYSTOLE_SAME_PLACE(Ours, kind, Theirs, kind);          \
  SYSTOLE_SAME_PLACE(Ours, bytes, Theirs, bytes);        \
  SYSTOLE_SAME_PLACE(Ours, start, Theirs, start);        \
  SYSTOLE_SAME_PLACE(Ours, end, Theirs, end);            \
  SYSTOLE_SAME_PLACE(Ours, device, Theirs, deviceId);    \
  SYSTOLE_SAME_PLACE(Ours, stream, Theirs, streamId);    \
  SYSTOLE_SAME_PLACE(Ours, call, Theirs, correlationId); \
  SYSTOLE_SAME_PLACE(Ours, node, Theirs, graphNodeId)
  SYSTOLE_SAME_MOVE(CopyRecord, Copy);
  SYSTOLE_SAME_MOVE(PeerCopyRecord, PeerCopy);
  SYSTOLE_SAME_MOVE(MemsetRecord, Memset);
  SYSTOLE_SAME_PLACE(CopyRecord, copy_kind, Copy, copyKind);
  SYSTOLE_SAME_PLACE(PeerCopyRecord, from_device, PeerCopy, srcDeviceId);
  SYSTOLE_SAME_PLACE(PeerCopyRecord, to_device, PeerCopy, dstDeviceId);
  SYSTOLE_SAME_PLACE(CallData, site, CUpti_CallbackData, callbackSite);
  SYSTOLE_SAME_PLACE(CallData, call, CUpti_CallbackData, correlationId);
  SYSTOLE_SAME_PLACE(ResourceData, what, CUpti_ResourceData, resourceDescriptor);
  SYSTOLE_SAME_PLACE(NodeData, node, CUpti_GraphData, node);
  SYSTOLE_SAME_PLACE(NodeData, original_node, CUpti_GraphData, originalNode);
#undef SYSTOLE_SAME_MOVE
#undef SYSTOLE_SAME_PLACE
}

#else

TEST(CuptiHeader, IsCompared) { GTEST_SKIP() << "cupti.h is not on this machine"; }

#endif

}  // namespace
}  // namespace systole::cuda
