#pragma once

// While one lives on this thread, functions that would record another graph for another number of elements
// (normal numbers come in pairs) record one that is the same for every number, though it is slower. For what
// is saved for sizes that are not known yet.

namespace systole::recording {

class AnySizeScope {
 public:
  explicit AnySizeScope(bool on = true);
  ~AnySizeScope();
  AnySizeScope(const AnySizeScope&) = delete;
  AnySizeScope& operator=(const AnySizeScope&) = delete;
  static bool is_on();

 private:
  bool previous_;
};

}  // namespace systole::recording
