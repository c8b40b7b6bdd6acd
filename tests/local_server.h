#pragma once

// A tiny HTTP server on 127.0.0.1 for tests of downloads: one file after the other, byte ranges, and
// connections that break on purpose.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace systole {

class LocalServer {
 public:
  LocalServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(socket_, 16);
    socklen_t size = sizeof(address);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LocalServer() {
    closing_ = true;
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  void put(const std::string& name, std::string content) {
    const std::lock_guard lock(mutex_);
    files_["/" + name] = std::move(content);
  }
  // Bytes after which each of the next answers breaks off; when none are left, they are whole.
  void break_after(std::vector<std::size_t> bytes) {
    const std::lock_guard lock(mutex_);
    breaks_ = std::move(bytes);
  }
  void without_ranges() { ranges_ = false; }
  std::vector<std::string> requests() {  // "PATH" or "PATH from N"
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (!closing_) {
      const int client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      answer(client);
      ::close(client);
    }
  }

  static void send_all(int client, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  void answer(int client) {
    std::string request;
    char part[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t n = ::recv(client, part, sizeof(part), 0);
      if (n <= 0) return;
      request.append(part, static_cast<std::size_t>(n));
    }
    const std::string path = request.substr(4, request.find(' ', 4) - 4);
    std::size_t from = 0;
    if (const std::size_t at = request.find("Range: bytes="); at != std::string::npos)
      from = std::strtoull(request.c_str() + at + 13, nullptr, 10);
    const std::lock_guard lock(mutex_);
    requests_.push_back(from == 0 ? path : path + " from " + std::to_string(from));
    const auto found = files_.find(path);
    if (found == files_.end()) return send_all(client, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    const std::string& file = found->second;
    if (from != 0 && ranges_ && from >= file.size())
      return send_all(client, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n");
    const bool partial = from != 0 && ranges_;
    const std::string_view body = std::string_view(file).substr(partial ? from : 0);
    std::string head = partial ? "HTTP/1.1 206 Partial Content\r\n" : "HTTP/1.1 200 OK\r\n";
    if (partial)
      head += "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(file.size() - 1) + "/" +
              std::to_string(file.size()) + "\r\n";
    send_all(client,
             head + "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n");
    std::size_t limit = body.size();
    if (!breaks_.empty()) {
      limit = std::min(limit, breaks_.front());
      breaks_.erase(breaks_.begin());
    }
    send_all(client, body.substr(0, limit));
  }

  int socket_;
  int port_ = 0;
  std::atomic<bool> closing_ = false, ranges_ = true;
  std::mutex mutex_;
  std::map<std::string, std::string> files_;
  std::vector<std::size_t> breaks_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace systole
