#pragma once

// The right to write to a folder, which one process has at a time: the files of two trainings in one folder
// would mix.
//
// It is flock() of the file ".systole.lock" in the folder, whose text names the holder. The system releases
// it when the process ends, however it ends: after kill -9 there is nothing to clean up. Programs that the
// process starts do not inherit it, and the child of a fork() closes it. The file stays in the folder: if it
// were removed, two processes could lock two files of that name.
//
// Where a file system has no locks, a warning says so and the folder is used without one.

#include <filesystem>
#include <string>
#include <string_view>

namespace systole {

class FolderLock {
 public:
  static constexpr std::string_view kFile = ".systole.lock";

  enum class Kind {
    run,    // a whole training: a process has at most one in a folder
    writer  // one of the process's writers: several share the process's lock, and that of its run
  };

  // The folder must be there. Throws kIo naming process and host when another one holds it; `advice` says
  // what else can be done, as in "another folder".
  FolderLock(const std::filesystem::path& folder, Kind kind, std::string_view advice);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

  bool is_held() const;  // not in the child of a fork()

  struct Held;

 private:
  void release() noexcept;

  Held* held_ = nullptr;
  Kind kind_ = Kind::writer;
};

// "process 4711 on host node3", which holds the folder now; empty when nobody does.
std::string holder_of(const std::filesystem::path& folder);

}  // namespace systole
