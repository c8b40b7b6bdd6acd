#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <mutex>

#include "base/parallel.h"
#include "base/sha256.h"
#include "io/safetensors_format.h"

namespace systole::io {

namespace {

constexpr std::uint64_t kLeaf = 1 << 20;

void add_number(Sha256& hash, std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> 8 * i);
  hash.add(bytes);
}

void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.add(text);
}

}  // namespace

const SafetensorsDType& safetensors_dtype(DType dtype) {
  return *std::find_if(std::begin(kSafetensorsDTypes), std::end(kSafetensorsDTypes),
                       [&](const SafetensorsDType& entry) { return entry.dtype == dtype; });
}

std::string metadata_digest(std::span<const std::pair<std::string_view, std::string_view>> sorted) {
  Sha256 hash;
  for (const auto& [key, value] : sorted) {
    if (key == kDigestKey) continue;
    add_text(hash, key);
    add_text(hash, value);
  }
  return hex(hash.finish());
}

std::string arrays_digest(std::span<const DigestPart> sorted, const ReadPart& read) {
  struct Work {
    std::span<const DigestPart> parts;
    const ReadPart& read;
    std::vector<std::uint64_t> first;  // leaf of each part
    std::vector<Sha256Digest> leaves;
    std::mutex mutex;
    std::exception_ptr error;
  } work{sorted, read, {}, {}, {}, {}};
  std::uint64_t count = 0;
  for (const DigestPart& part : sorted) {
    work.first.push_back(count);
    count += (part.bytes + kLeaf - 1) / kLeaf;
  }
  work.leaves.resize(count);
  parallel_for(
      static_cast<std::int64_t>(count),
      std::min(thread_count(), 1 + static_cast<int>(std::min<std::uint64_t>(count, 64) / 4)),
      [](const void* context, std::int64_t begin, std::int64_t end) {
        Work& w = *static_cast<Work*>(const_cast<void*>(context));
        try {
          std::vector<std::byte> buffer(kLeaf);
          for (auto leaf = static_cast<std::uint64_t>(begin); leaf < static_cast<std::uint64_t>(end);
               ++leaf) {
            const auto part = static_cast<std::size_t>(
                std::upper_bound(w.first.begin(), w.first.end(), leaf) - w.first.begin() - 1);
            const std::uint64_t offset = (leaf - w.first[part]) * kLeaf;
            const std::uint64_t size = std::min(kLeaf, w.parts[part].bytes - offset);
            w.leaves[leaf] = sha256(w.read(part, offset, std::span(buffer).first(size)));
          }
        } catch (...) {
          const std::lock_guard lock(w.mutex);
          w.error = std::current_exception();
        }
      },
      &work);
  if (work.error) std::rethrow_exception(work.error);
  Sha256 hash;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    add_text(hash, sorted[i].name);
    add_text(hash, sorted[i].dtype);
    add_number(hash, sorted[i].dims.size());
    for (const std::int64_t dim : sorted[i].dims) add_number(hash, static_cast<std::uint64_t>(dim));
    const std::uint64_t end = i + 1 < sorted.size() ? work.first[i + 1] : count;
    for (std::uint64_t leaf = work.first[i]; leaf < end; ++leaf) hash.add(work.leaves[leaf]);
  }
  return hex(hash.finish());
}

}  // namespace systole::io
