#pragma once

// Downloads: known data sets, and one file from one address. The work is done by the command `curl`, which
// knows proxies, certificates and protocols. What has come lies in FILE.part, is continued after a break, and
// becomes FILE only when its digest is right.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/digest.h"

namespace systole::data {

struct Download {
  std::string name;  // of the file; its address is BASE + name
  io::DigestKind kind = io::DigestKind::sha256;
  std::string digest;
};

struct KnownSet {
  std::string_view name, base, licence;
  std::vector<Download> files;
};

const std::vector<KnownSet>& known_sets();
const KnownSet& known_set(std::string_view name);  // throws kNotFound with the nearest name

struct FetchOptions {
  int attempts = 5;                                          // without a new byte
  std::function<void(const std::string& line)> report = {};  // what happens, for people
};

// False when the file was there already, and right. Throws kIo with what curl said, kParse for a wrong
// digest (then what came is removed), kUnsupported without curl.
bool fetch(const std::string& address, const std::filesystem::path& target, const Download& wanted,
           const FetchOptions& options = {});

}  // namespace systole::data
