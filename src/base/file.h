#pragma once

// Files as bytes. Reading knows the size before it allocates; writing goes to a temporary file beside the
// target that replaces it only when every byte is on the disk, so a failure or a kill leaves the old file as
// it was. A missing file is kNotFound, every other refusal of the operating system kIo, both naming the file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace systole {

// Bytes that can be read at any offset. Reading past size() is kIo: the file shrank while it was open.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

// The most that is read from a pipe or device, whose size nothing tells; /dev/zero has no end.
inline constexpr std::uint64_t kLargestStream = std::uint64_t{1} << 30;

// A regular file is read where it is; anything else (a pipe, a device) is read whole into memory first, and
// kLimit when it holds more than `largest` bytes.
std::unique_ptr<ByteSource> open_file(const std::filesystem::path& file,
                                      std::uint64_t largest = kLargestStream);
// What a program finds by itself, in a cache or a folder: kParse, at once, for a pipe or device, which may
// never answer.
std::unique_ptr<ByteSource> open_regular_file(const std::filesystem::path& file);
// The same of a descriptor, which it takes over; `file` is for messages.
std::unique_ptr<ByteSource> regular_file(int descriptor, const std::filesystem::path& file);
std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes);  // borrows the bytes

std::string read_text_file(const std::filesystem::path& file);
std::string read_regular_text_file(const std::filesystem::path& file);  // as open_regular_file

// The rest of an open descriptor, such as standard input; `label` names it in messages. As open_file, kLimit.
std::string read_text_stream(int descriptor, const std::string& label,
                             std::uint64_t largest = kLargestStream);

// A file under construction. Without commit() the destructor removes it and the target stays as it was. A
// symbolic link is followed, so what it names is replaced; the permissions of an existing target are kept.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  // `name` in an opened folder, which must stay open. A link of that name is replaced, not followed; `label`
  // is for messages.
  AtomicFile(int folder, const std::string& name, std::filesystem::path label);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();   // the content, then the rename, reaches the disk
  void replace();  // without waiting for the disk: a crash of the machine may leave any content

 private:
  void open();

  std::filesystem::path label_;
  int folder_;                      // what the names are relative to
  std::string target_, temporary_;  // of the second there is a file while it is not empty
  int descriptor_ = -1;
};

void write_file(const std::filesystem::path& target, std::span<const std::byte> bytes);

// For tests: a disk that refuses. Called before each step of an AtomicFile; what it returns other than 0 is
// the errno that the step fails with, a write after half of its bytes. An empty one ends it.
enum class FileStep { open, write, sync, close, rename, sync_folder };
void set_file_fault(std::function<int(FileStep)> fault);

}  // namespace systole
