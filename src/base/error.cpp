#include "systole/base/error.h"

namespace systole {

namespace {

std::string sentence(const std::string& where, const std::string& message, const std::string& expected,
                     const std::string& got) {
  std::string text = where.empty() || message.empty() ? where + message : where + ": " + message;
  if (!expected.empty())
    text += (message.empty() && !where.empty() ? ": expected "
             : message.ends_with('?')          ? " Expected "
                                               : "; expected ") +
            expected;
  if (!got.empty()) text += (expected.empty() ? "; got " : ", got ") + got;
  return text;
}

}  // namespace

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument: return "invalid argument";
    case ErrorKind::kShape: return "shape error";
    case ErrorKind::kDType: return "dtype error";
    case ErrorKind::kParse: return "parse error";
    case ErrorKind::kIo: return "input/output error";
    case ErrorKind::kNotFound: return "not found";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kOutOfMemory: return "out of memory";
    case ErrorKind::kLimit: return "limit exceeded";
    case ErrorKind::kContextLost: return "device lost";
    case ErrorKind::kInternal: return "internal error";
  }
  return "error";
}

Error::Error(ErrorKind kind, std::string where, std::string message, std::string expected, std::string got)
    : std::runtime_error(sentence(where, message, expected, got)),
      kind_(kind),
      where_(std::move(where)),
      message_(std::move(message)),
      expected_(std::move(expected)),
      got_(std::move(got)) {}

Error Error::within(std::string_view context) const {
  std::string where = where_.empty() ? std::string(context) : std::string(context) + ": " + where_;
  return Error(kind_, std::move(where), message_, expected_, got_);
}

}  // namespace systole
