#pragma once

// A live peer: another framework's benchmark that holds one workload ready. It prints #ready once it is warm
// and then, for every line it reads, measures one window and prints a JSON line. It runs in a process group
// of its own, which ends with the Peer, whatever it does.

#include <nlohmann/json.hpp>
#include <string>

namespace systole::cli::bench {

class Peer {
 public:
  explicit Peer(std::string command);  // a line for /bin/sh; throws kIo when it cannot be started
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Both throw kIo when the peer ends or stays silent for longer than the limit, kParse when it prints
  // something else; the message quotes what it last said.
  void wait_ready(double limit_s);
  nlohmann::json window(double limit_s);  // an object with the string metric and the number value

 private:
  std::string read_line(double limit_s, const char* awaited);
  [[noreturn]] void fail(const std::string& what);
  std::string last_words() const;  // the last line on the peer's standard error, else on its standard output
  bool ended() const;

  std::string command_, buffer_, last_line_;
  int process_ = -1;
  int to_ = -1, from_ = -1, errors_ = -1;
};

}  // namespace systole::cli::bench
