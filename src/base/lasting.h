#pragma once

// Values that are never destroyed, for what the library keeps for a whole process: objects of a program may
// be static and use Tensors to their very end.
//
//   static const Table& table = lasting<Table>();
//   static const Names& names = lasting<Names>(read_names());

#include <memory>
#include <utility>

namespace systole {

template <class T, class... Arguments>
T& lasting(Arguments&&... arguments) {
  return *std::make_unique<T>(std::forward<Arguments>(arguments)...).release();
}

}  // namespace systole
