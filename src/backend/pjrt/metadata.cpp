#include "backend/pjrt/metadata.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "backend/pjrt/text.h"
#include "base/env.h"
#include "systole/base/error.h"

namespace systole::tpu {

namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr const char* kHost = "metadata.google.internal";
constexpr const char* kAddress = "169.254.169.254";  // what the name stands for; no name server is asked
constexpr std::size_t kMaxReply = 1 << 20;

class Socket {
 public:
  explicit Socket(const addrinfo& to)
      : descriptor_(::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol)) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

struct Reply {
  int status = 0;
  std::string status_line, headers, body;  // headers in lower case
};

// One request over a socket of its own. Every wait ends at the deadline.
class Exchange {
 public:
  Exchange(std::string where, Clock::time_point deadline, std::chrono::milliseconds limit)
      : where_(std::move(where)), deadline_(deadline), limit_(limit) {}

  Reply get(const std::string& address, const std::string& port, const std::string& request) const {
    const Addresses addresses = look_up(address, port);
    const Socket socket(*addresses);
    if (socket.descriptor() < 0) fail(std::strerror(errno));
    connect(socket.descriptor(), *addresses);
    send(socket.descriptor(), request);
    return parse(receive(socket.descriptor()));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorKind::kIo, where_, what); }

  [[noreturn]] void no_answer() const {
    fail(fmt::format("no answer within {:.1f} s; only machines in Google Cloud have such a server",
                     std::chrono::duration<double>(limit_).count()));
  }

  // Asking a name server cannot be interrupted, so a thread does it, and is left alone when it takes too
  // long.
  Addresses look_up(const std::string& address, const std::string& port) const {
    struct Answer {
      int code = 0;
      Addresses found{nullptr, ::freeaddrinfo};
    };
    const auto ask = [address, port](int flags) {
      addrinfo hints{}, *found = nullptr;
      hints.ai_family = AF_INET;
      hints.ai_socktype = SOCK_STREAM;
      hints.ai_flags = flags;
      const int code = ::getaddrinfo(address.c_str(), port.c_str(), &hints, &found);
      return Answer{code, Addresses(code == 0 ? found : nullptr, ::freeaddrinfo)};
    };
    Answer answer = ask(AI_NUMERICHOST | AI_NUMERICSERV);
    if (answer.code == EAI_NONAME) {
      std::promise<Answer> promise;
      std::future<Answer> future = promise.get_future();
      std::thread([ask, promise = std::move(promise)]() mutable {
        promise.set_value(ask(AI_NUMERICSERV));
      }).detach();
      if (future.wait_until(deadline_) != std::future_status::ready) no_answer();
      answer = future.get();
    }
    if (answer.code != 0) fail(fmt::format("{}: {}", shown(address), ::gai_strerror(answer.code)));
    return std::move(answer.found);
  }

  void wait(int descriptor, short events) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
      if (left.count() <= 0) no_answer();
      pollfd entry{descriptor, events, 0};
      const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) fail(std::strerror(errno));
    }
  }

  void connect(int descriptor, const addrinfo& to) const {
    if (::connect(descriptor, to.ai_addr, to.ai_addrlen) == 0) return;
    if (errno != EINPROGRESS) fail(std::strerror(errno));
    wait(descriptor, POLLOUT);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) fail(std::strerror(error));
  }

  void send(int descriptor, std::string_view request) const {
    while (!request.empty()) {
      wait(descriptor, POLLOUT);
      const ssize_t n = ::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != EINTR) fail(std::strerror(errno));
      if (n > 0) request.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  std::string receive(int descriptor) const {  // until the server closes
    std::string reply;
    for (;;) {
      wait(descriptor, POLLIN);
      char part[4096];
      const ssize_t n = ::recv(descriptor, part, sizeof part, 0);
      if (n == 0) return reply;
      if (n < 0 && errno != EAGAIN && errno != EINTR) fail(std::strerror(errno));
      if (n > 0) reply.append(part, static_cast<std::size_t>(n));
      if (reply.size() > kMaxReply)
        throw Error(ErrorKind::kLimit, where_, "the reply is too long",
                    fmt::format("at most {} bytes", kMaxReply));
    }
  }

  Reply parse(const std::string& text) const {
    const auto malformed = [&](const char* expected) {
      return Error(ErrorKind::kParse, where_, "what answers is not a metadata server", expected,
                   text.empty() ? "nothing" : shown(text));
    };
    const std::size_t head_end = text.find("\r\n\r\n"), line_end = text.find("\r\n");
    // "HTTP/1.0 200 OK"
    const bool has_status = text.starts_with("HTTP/1.") && line_end != std::string::npos && line_end >= 12 &&
                            text[8] == ' ' && std::all_of(text.begin() + 9, text.begin() + 12, [](char c) {
                              return std::isdigit(static_cast<unsigned char>(c)) != 0;
                            });
    if (head_end == std::string::npos || !has_status) throw malformed("an HTTP reply");
    Reply reply;
    reply.status = std::stoi(text.substr(9, 3));
    reply.status_line = text.substr(0, line_end);
    reply.headers = lower(text.substr(line_end, head_end - line_end)) + "\r\n";
    reply.body = text.substr(head_end + 4);
    if (reply.headers.find("\r\nmetadata-flavor: google\r\n") == std::string::npos)
      throw malformed("a reply with Metadata-Flavor: Google");
    if (reply.headers.find("\r\ntransfer-encoding:") != std::string::npos)
      throw malformed("a reply in one piece");
    constexpr std::string_view kLength = "\r\ncontent-length:";
    if (const std::size_t at = reply.headers.find(kLength); at != std::string::npos) {
      const std::size_t from = at + kLength.size();
      const std::string length = trimmed(reply.headers.substr(from, reply.headers.find("\r\n", from) - from));
      if (length != std::to_string(reply.body.size())) throw malformed("as many bytes as it announces");
    }
    return reply;
  }

  const std::string where_;
  const Clock::time_point deadline_;
  const std::chrono::milliseconds limit_;
};

}  // namespace

MetadataServer::MetadataServer(std::chrono::milliseconds limit)
    : host_(kHost), address_(kAddress), limit_(limit), deadline_(Clock::now() + limit) {
  for (const char* variable : {"GCE_METADATA_HOST", "GCE_METADATA_IP"}) {
    const std::optional<std::string> text = env::text(variable);
    if (!text) continue;
    const std::size_t colon = text->find(':');
    const std::string host = text->substr(0, colon),
                      port = colon == std::string::npos ? port_ : text->substr(colon + 1);
    const auto fits = [](const std::string& word, auto&& allowed) {
      return !word.empty() && std::all_of(word.begin(), word.end(), allowed);
    };
    const bool good = fits(host,
                           [](char c) {
                             return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
                           }) &&
                      fits(port, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }) &&
                      port.size() <= 5;
    if (!good)
      throw Error(ErrorKind::kInvalidArgument, variable, "not an address", "host or host:port", shown(*text));
    host_ = address_ = host;
    port_ = port;
    return;
  }
}

std::string MetadataServer::label() const { return "metadata server " + host_; }

std::optional<std::string> MetadataServer::attribute(std::string_view name) const {
  const std::string where = fmt::format("{}: {}", label(), name);
  // HTTP/1.0, so that the reply comes in one piece and ends with the connection.
  const Reply reply =
      Exchange(where, deadline_, limit_)
          .get(address_, port_,
               fmt::format("GET /computeMetadata/v1/instance/attributes/{} HTTP/1.0\r\nHost: {}\r\n"
                           "Metadata-Flavor: Google\r\nConnection: close\r\n\r\n",
                           name, host_));
  if (reply.status == 404) return std::nullopt;
  if (reply.status != 200) throw Error(ErrorKind::kIo, where, "refused: " + shown(reply.status_line));
  std::string value = trimmed(reply.body);
  if (value.empty()) return std::nullopt;
  const auto is_text = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) == 0 || c == '\n'; };
  if (!std::all_of(value.begin(), value.end(), is_text))
    throw Error(ErrorKind::kParse, where, "not text", {}, shown(value));
  return value;
}

}  // namespace systole::tpu
