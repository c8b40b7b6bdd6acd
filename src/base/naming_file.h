#pragma once

// That there is no memory for what a file holds is an error that names the file: a bare std::bad_alloc says
// neither which nor that a smaller one would do.

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "systole/base/error.h"

namespace systole {

// Runs `work`, which reads the file.
template <class F>
decltype(auto) naming_file(const std::filesystem::path& file, F&& work) {
  const auto no_memory = [&](std::string why) {
    return Error(ErrorKind::kOutOfMemory, file.string(), "no memory for what is in the file", {},
                 std::move(why));
  };
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory || error.where().find(file.string()) != std::string::npos)
      throw;
    throw no_memory(error.what());
  } catch (const std::bad_alloc&) {
    throw no_memory({});
  } catch (const std::length_error&) {
    throw no_memory({});
  }
}

}  // namespace systole
