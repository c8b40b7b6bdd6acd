#pragma once

// What a call throws, for tests of messages.

#include <gtest/gtest.h>

#include <string>

#include "systole/base/error.h"

namespace systole {

// The message of a call's error of this kind; empty, with a failure noted, when there is none.
template <class F>
std::string error_of(ErrorKind kind, F&& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace systole
