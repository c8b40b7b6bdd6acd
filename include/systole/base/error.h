#pragma once

// The one exception type of the library. Every failure that a caller can cause or must handle is an Error
// with a kind to switch on and the facts (where, expected, got) as fields; what() joins them into one
// readable sentence.

#include <stdexcept>
#include <string>
#include <string_view>

#include "systole/base/export.h"

namespace systole {

enum class ErrorKind {
  kInvalidArgument,  // a value that no call of this kind accepts
  kShape,            // shapes that do not fit together
  kDType,            // a dtype the op does not take
  kParse,            // malformed text or bytes; `where` holds file, line and column or the offset
  kIo,               // the operating system refused: open, read, write, rename
  kNotFound,         // unknown op, device, name or file
  kUnsupported,      // valid, but this backend or build cannot do it; the message says why
  kOutOfMemory,      // an allocation failed
  kLimit,            // a documented limit was exceeded
  kContextLost,      // the device is gone; nothing on it can be used any more
  kInternal,         // a broken invariant of the library: a bug
};

SYSTOLE_API std::string_view name(ErrorKind kind);

class SYSTOLE_API Error : public std::runtime_error {
 public:
  // `where` is an op, file or field; `expected` and `got` may be empty.
  Error(ErrorKind kind, std::string where, std::string message, std::string expected = {},
        std::string got = {});

  ErrorKind kind() const { return kind_; }
  const std::string& where() const { return where_; }
  const std::string& message() const { return message_; }
  const std::string& expected() const { return expected_; }
  const std::string& got() const { return got_; }

  // The same error with `context` put before `where`, e.g. a file name around an op.
  Error within(std::string_view context) const;

 private:
  ErrorKind kind_;
  std::string where_, message_, expected_, got_;
};

}  // namespace systole
