#pragma once

// The metadata server of a Google Cloud machine: an HTTP server on a link-local address that knows what the
// machine is. Outside the cloud nothing answers there, so all questions to one MetadataServer share one time
// limit, and a reply has a largest size.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace systole::tpu {

class MetadataServer {
 public:
  // At GCE_METADATA_HOST or GCE_METADATA_IP ("host" or "host:port"), else where the cloud has it. Connects to
  // nothing yet. Throws kInvalidArgument for a variable that is no address.
  explicit MetadataServer(std::chrono::milliseconds limit);

  // An attribute of this machine, without white space around it; none when the server knows no such attribute
  // (404) or an empty one. Throws kIo when it cannot be reached, is too slow or refuses; kParse when what
  // answers is not a metadata server; kLimit when the reply is too long.
  std::optional<std::string> attribute(std::string_view name) const;

  std::string label() const;  // for messages

 private:
  std::string host_, port_ = "80", address_;  // address_: what to connect to
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace systole::tpu
