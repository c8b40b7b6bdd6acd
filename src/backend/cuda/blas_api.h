#pragma once

// cublasLt.h, as far as it is used. tests/cuda compares the numbers with the header where there is one.

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/device.h"
#include "backend/cuda/driver.h"
#include "systole/base/dtype.h"

namespace systole::cuda::lt {

using Handle = Opaque<struct HandleObject>;
using Description = Opaque<struct DescriptionObject>;
using Layout = Opaque<struct LayoutObject>;
using Preference = Opaque<struct PreferenceObject>;

struct Algorithm {
  std::uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

enum : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBiasType = 26,
  kAuxPointer = 11,
  kAuxStride = 12,  // CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD
  kAuxBatchStride = 13,
  kAuxType = 22,
  kBatchCount = 5,
  kBatchOffset = 6,
  kMostWorkspace = 1,
  kAlignmentA = 5,  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_…_BYTES
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
  kNothingOnResult = 1,
  kRelu = 2,
  kBias = 4,
  kGelu = 32,
  kAux = 128,                // in CUBLASLT_EPILOGUE_GELU_AUX beside GELU
  kGeluGradient = 64 | 128,  // CUBLASLT_EPILOGUE_DGELU
  kBiasGradient = 16,        // in CUBLASLT_EPILOGUE_DGELU_BGRAD beside DGELU
  kSumOfA = 256,             // CUBLASLT_EPILOGUE_BGRADA
  kSumOfB = 512,
  kCompute32F = 68,
  kCompute32FTf32 = 77,
  kCompute64F = 70,
  kTypeF32 = 0,
  kTypeF64 = 1,
  kTypeF16 = 2,
  kTypeBf16 = 14,
};

struct Api {
  int (*create)(Handle*) = nullptr;
  std::size_t (*version)() = nullptr;
  const char* (*words)(int) = nullptr;
  int (*new_description)(Description*, int, int) = nullptr;
  int (*set_description)(Description, int, const void*, std::size_t) = nullptr;
  int (*free_description)(Description) = nullptr;
  int (*new_layout)(Layout*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*set_layout)(Layout, int, const void*, std::size_t) = nullptr;
  int (*free_layout)(Layout) = nullptr;
  int (*new_preference)(Preference*) = nullptr;
  int (*set_preference)(Preference, int, const void*, std::size_t) = nullptr;
  int (*free_preference)(Preference) = nullptr;
  int (*heuristic)(Handle, Description, Layout, Layout, Layout, Layout, Preference, int, Heuristic*,
                   int*) = nullptr;
  int (*multiply)(Handle, Description, const void*, const void*, Layout, const void*, Layout, const void*,
                  const void*, Layout, void*, Layout, const Algorithm*, void*, std::size_t, Stream) = nullptr;
};

std::string absence();  // empty when there is a cuBLASLt
const Api& api();
void set_api(const Api* api);  // in its place: one of a test's own; null: the library's again
void check(int status, const char* call);
Handle handle(const Device& device);
int type_number(DType dtype);  // cudaDataType; -1 for what products have not

}  // namespace systole::cuda::lt
