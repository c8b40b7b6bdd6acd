#pragma once

// oneDNN's C interface (dnnl.h of version 3), as far as it is used, found at run time: where
// SYSTOLE_ONEDNN says, else in the first place of these: the folders of packages (backend/packages.h), where
// the loader looks.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace systole::cpu::dnnl {

using Engine = struct EngineObject*;
using Stream = struct StreamObject*;
using Description = struct DescriptionObject*;  // of an array
using Memory = struct MemoryObject*;
using Attributes = struct AttributesObject*;
using PostOps = struct PostOpsObject*;
using PrimitiveDescription = struct PrimitiveDescriptionObject*;
using Primitive = struct PrimitiveObject*;

struct Argument {
  int name;
  Memory memory;
};

enum : int {
  kOutOfMemory = 1,
  kUnimplemented = 3,
  kCpu = 1,
  kInOrder = 1,
  kF32 = 3,
  kS32 = 4,
  kS8 = 5,
  kU8 = 6,
  kAnyOrder = 1,
  kTraining = 64,
  kInference = 96,
  kDirect = 1,  // of convolutions
  kRound = 50,
  kMeanWithPadding = 767,
  kMeanWithoutPadding = 1023,
  kAdd = 131056,
  kMul = 131057,
  kMax = 131058,
  kMin = 131059,
  kDiv = 131060,
  kSub = 131061,
  kUserScratchpad = 1,
  kVnni = 8,  // of instruction sets
  kVnni512 = 64,
  kImplementationOf = 8,
  kWeightsOf = 131,
  kWeightGradientOf = 132,
  kScratchpadOf = 136,
  // Arguments:
  kSource = 1,
  kSecondSource = 2,
  kResult = 17,
  kWeights = 33,
  kBias = 41,
  kScratchpad = 80,
  kInputGradient = 129,
  kResultGradient = 145,
  kWeightGradient = 161,
  kSources = 1024,  // and which of several
  kPostOp = 32768,  // times one more than its place
};

struct VersionObject {
  int major, minor, patch;
  const char* commit;
  unsigned cpu_runtime, gpu_runtime;
};
enum : unsigned { kSequential = 1, kOpenMp = 2, kTbb = 4 };  // of these runtimes

struct Api {
  const VersionObject* (*version)();
  int (*get_effective_cpu_isa)();
  int (*engine_create)(Engine*, int kind, std::size_t index);
  int (*stream_create)(Stream*, Engine, unsigned flags);
  int (*stream_destroy)(Stream);
  int (*memory_desc_create_with_strides)(Description*, int axes, const std::int64_t* dims, int type,
                                         const std::int64_t* strides);
  int (*memory_desc_create_with_tag)(Description*, int axes, const std::int64_t* dims, int type, int tag);
  int (*memory_desc_clone)(Description*, const DescriptionObject*);
  int (*memory_desc_destroy)(Description);
  std::size_t (*memory_desc_get_size)(const DescriptionObject*);
  int (*memory_desc_equal)(const DescriptionObject*, const DescriptionObject*);
  int (*memory_create)(Memory*, const DescriptionObject*, Engine, void* data);
  int (*memory_set_data_handle)(Memory, void* data);
  int (*memory_destroy)(Memory);
  int (*primitive_attr_create)(Attributes*);
  int (*primitive_attr_destroy)(Attributes);
  int (*primitive_attr_set_scratchpad_mode)(Attributes, int mode);
  int (*primitive_attr_set_post_ops)(Attributes, const PostOpsObject*);
  int (*post_ops_create)(PostOps*);
  int (*post_ops_destroy)(PostOps);
  int (*post_ops_append_binary)(PostOps, int function, const DescriptionObject* other);
  int (*post_ops_append_eltwise)(PostOps, int function, float alpha, float beta);
  const DescriptionObject* (*primitive_desc_query_md)(const PrimitiveDescriptionObject*, int what, int index);
  int (*primitive_desc_query)(const PrimitiveDescriptionObject*, int what, int index, void* result);
  int (*primitive_desc_destroy)(PrimitiveDescription);
  int (*primitive_create)(Primitive*, const PrimitiveDescriptionObject*);
  int (*primitive_execute)(const PrimitiveObject*, Stream, int count, const Argument* arguments);
  int (*primitive_destroy)(Primitive);
  int (*reorder_primitive_desc_create)(PrimitiveDescription*, const DescriptionObject* from, Engine,
                                       const DescriptionObject* to, Engine, const AttributesObject*);
  int (*sum_primitive_desc_create)(PrimitiveDescription*, Engine, const DescriptionObject* to, int count,
                                   const float* scales, const DescriptionObject* const* from,
                                   const AttributesObject*);
  int (*matmul_primitive_desc_create)(PrimitiveDescription*, Engine, const DescriptionObject* a,
                                      const DescriptionObject* b, const DescriptionObject* bias,
                                      const DescriptionObject* c, const AttributesObject*);
  int (*convolution_forward_primitive_desc_create)(PrimitiveDescription*, Engine, int purpose, int algorithm,
                                                   const DescriptionObject* x, const DescriptionObject* w,
                                                   const DescriptionObject* bias, const DescriptionObject* y,
                                                   const std::int64_t* strides, const std::int64_t* dilations,
                                                   const std::int64_t* before, const std::int64_t* after,
                                                   const AttributesObject*);
  int (*convolution_backward_data_primitive_desc_create)(
      PrimitiveDescription*, Engine, int algorithm, const DescriptionObject* dx, const DescriptionObject* w,
      const DescriptionObject* dy, const std::int64_t* strides, const std::int64_t* dilations,
      const std::int64_t* before, const std::int64_t* after, const PrimitiveDescriptionObject* forward,
      const AttributesObject*);
  int (*convolution_backward_weights_primitive_desc_create)(
      PrimitiveDescription*, Engine, int algorithm, const DescriptionObject* x, const DescriptionObject* dw,
      const DescriptionObject* dbias, const DescriptionObject* dy, const std::int64_t* strides,
      const std::int64_t* dilations, const std::int64_t* before, const std::int64_t* after,
      const PrimitiveDescriptionObject* forward, const AttributesObject*);
  int (*pooling_forward_primitive_desc_create)(PrimitiveDescription*, Engine, int purpose, int algorithm,
                                               const DescriptionObject* x, const DescriptionObject* y,
                                               const std::int64_t* strides, const std::int64_t* window,
                                               const std::int64_t* dilations, const std::int64_t* before,
                                               const std::int64_t* after, const AttributesObject*);
};

// Empty: it is here. kInvalidArgument when SYSTOLE_ONEDNN names a library that cannot be used.
const std::string& absence();
const std::string& file();  // where it lies
bool is_off();              // by SYSTOLE_ONEDNN=0
const Api& api();
Engine engine();  // the processor
void check(int status, const char* call);

template <class Object, int (*Api::*Destroy)(Object*)>
struct Destroyer {
  void operator()(Object* object) const { (api().*Destroy)(object); }
};
template <class Object, int (*Api::*Destroy)(Object*)>
using Owned = std::unique_ptr<Object, Destroyer<Object, Destroy>>;
using OwnedStream = Owned<StreamObject, &Api::stream_destroy>;
using OwnedDescription = Owned<DescriptionObject, &Api::memory_desc_destroy>;
using OwnedMemory = Owned<MemoryObject, &Api::memory_destroy>;
using OwnedAttributes = Owned<AttributesObject, &Api::primitive_attr_destroy>;
using OwnedPostOps = Owned<PostOpsObject, &Api::post_ops_destroy>;
using OwnedPrimitiveDescription = Owned<PrimitiveDescriptionObject, &Api::primitive_desc_destroy>;
using OwnedPrimitive = Owned<PrimitiveObject, &Api::primitive_destroy>;

// An array by its axes; without strides the library chooses the order.
OwnedDescription described(const std::vector<std::int64_t>& dims, int type,
                           const std::vector<std::int64_t>& strides = {});

}  // namespace systole::cpu::dnnl
