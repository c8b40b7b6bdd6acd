#pragma once

// Matrix products and convolutions with both gradients by oneDNN, in f32: activations with their channels
// last as the graph has them, kernels in the order that the library likes best, into which they are brought
// at each run. A bias or another array that is added comes along. Products and forward convolutions of bytes
// with sums in i32 too (onednn_int8.h), and means over windows (onednn_layers.h).
//
// relu does not come along in f32: the library's gives 0 for what is not a number, ours and PyTorch's keep
// it.

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/library_call.h"
#include "compile/target.h"

namespace systole::cpu {

// Empty: it is here and wanted. kInvalidArgument when SYSTOLE_ONEDNN names a library that cannot be used.
std::string onednn_absence();
std::string onednn_name();    // of the one that is here: "oneDNN 3.2.0 (/path/libdnnl.so.3)"
std::string onednn_repair();  // what to do when it is absent

// The region's anchor is a dot_general, a convolution or a layer (patterns/layers.h). One claim, or the
// reason for none; neither where nobody wants oneDNN. The first that oneDNN would be asked for, and that has
// to do without it, is a warning, once a process.
std::vector<lower::Claim> onednn_offers(const lower::Region& region);
std::shared_ptr<const LibraryCall> onednn_call(const lower::Region& region);  // of what was claimed

}  // namespace systole::cpu
