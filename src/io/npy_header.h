#pragma once

// The text header of an .npy file: a Python dict literal with the keys descr, fortran_order and shape. The
// reader is a strict parser of just that form; it never recurses and never evaluates anything.

#include <cstdint>
#include <string>
#include <string_view>

#include "systole/base/dtype.h"
#include "systole/base/shape.h"

namespace systole::io {

struct NpyHeader {
  Type type;  // void items of 1 and 2 bytes are u8 and u16: the file does not say more
  bool big_endian = false;
  bool fortran_order = false;
};

// `offset` is where the text starts in `file`; both are for messages. Throws kParse for text that is not such
// a dict, for more than kMaxRank dimensions and for a size that does not fit 63 bits, kUnsupported for items
// that are not numbers.
NpyHeader parse_npy_header(std::string_view text, std::uint64_t offset, std::string_view file);

// Everything before the data: magic, version 1.0, length and text, byte for byte what numpy.save writes. bf16
// and the 8-bit floats, which numpy lacks, are void items of their size.
std::string npy_prefix(const Type& type);

}  // namespace systole::io
