// Which worker of which TPU this process is, by variables, device files and a metadata server, which is
// played by a thread. Names and forms of variables and attributes are those of Cloud TPU VMs and of GKE.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "../error_check.h"
#include "../scratch_folder.h"
#include "backend/pjrt/metadata.h"
#include "backend/pjrt/resolve.h"

namespace systole::tpu {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Strings = std::vector<std::string>;

constexpr const char* kVariables[] = {"TPU_NAME",
                                      "TPU_ACCELERATOR_TYPE",
                                      "TPU_WORKER_HOSTNAMES",
                                      "TPU_WORKER_ID",
                                      "CLOUD_TPU_TASK_ID",
                                      "TPU_PROCESS_ADDRESSES",
                                      "MEGASCALE_NUM_SLICES",
                                      "MEGASCALE_SLICE_ID",
                                      "GCE_METADATA_HOST",
                                      "GCE_METADATA_IP",
                                      "COLAB_TPU_ADDR",
                                      "TPU_ENDPOINT",
                                      "XRT_TPU_CONFIG",
                                      "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"};

// A machine without a TPU, and none of the variables.
class TpuResolve : public ScratchFolder {
 protected:
  void SetUp() override {
    for (const char* variable : kVariables) ::unsetenv(variable);
    machine_ = {folder_, 2s};
  }
  void TearDown() override { SetUp(); }
  static void set(const char* variable, const std::string& value) { ::setenv(variable, value.c_str(), 1); }
  void add_device_file() {
    std::filesystem::create_directories(folder_ / "dev");
    std::ofstream(folder_ / "dev" / "accel0");
  }
  Cluster find(std::string_view name = {}, Metadata metadata = Metadata::ignore) const {
    return resolve(name, metadata, machine_);
  }
  std::string failure(ErrorKind kind, std::string_view name = {},
                      Metadata metadata = Metadata::ignore) const {
    return error_of(kind, [&] { find(name, metadata); });
  }

  Machine machine_;
};

// Answers every connection with `reply(path)`, after a pause; an empty reply closes at once.
class FakeServer {
 public:
  using Replies = std::map<std::string, std::string>;  // attribute → the whole reply; "*": any other

  explicit FakeServer(Replies replies, std::chrono::milliseconds pause = 0ms)
      : replies_(std::move(replies)),
        pause_(pause),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    place_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  const std::string& place() const { return place_; }
  int requests() const { return requests_; }
  bool well_asked() const { return well_asked_; }

  static std::string ok(const std::string& body) {
    return "HTTP/1.0 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static std::string missing() {
    return "HTTP/1.0 404 Not Found\r\nmetadata-flavor: Google\r\nContent-Length: 4\r\n\r\nnone";
  }

 private:
  void serve() {
    for (int peer; (peer = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(peer)) {
      ++requests_;
      std::string request;
      char part[1024];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t n = ::recv(peer, part, sizeof part, 0);
        if (n <= 0) break;
        request.append(part, static_cast<std::size_t>(n));
      }
      const std::string prefix = "GET /computeMetadata/v1/instance/attributes/";
      if (!request.starts_with(prefix) ||
          request.find("\r\nMetadata-Flavor: Google\r\n") == std::string::npos)
        well_asked_ = false;
      const std::string name =
          request.substr(prefix.size(), request.find(' ', prefix.size()) - prefix.size());
      const auto found = replies_.contains(name) ? replies_.find(name) : replies_.find("*");
      for (auto until = Clock::now() + pause_; !stopping_ && Clock::now() < until;)
        std::this_thread::sleep_for(5ms);
      std::string_view rest = found == replies_.end() ? std::string_view() : found->second;
      while (!rest.empty()) {
        const ssize_t n = ::send(peer, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (n <= 0) break;
        rest.remove_prefix(static_cast<std::size_t>(n));
      }
    }
  }

  const Replies replies_;
  const std::chrono::milliseconds pause_;
  const int listener_;
  std::string place_;
  std::atomic<int> requests_ = 0;
  std::atomic<bool> well_asked_ = true, stopping_ = false;
  std::thread thread_;
};

TEST_F(TpuResolve, WithoutATpuSaysWhereToRun) {
  EXPECT_NE(failure(ErrorKind::kNotFound).find("scripts/cloud-tpu"), std::string::npos);
  set("TPU_NAME", "my-tpu");  // a shell that makes TPU VMs has this, and no TPU
  const std::string text = failure(ErrorKind::kNotFound);
  EXPECT_NE(text.find("TPU_NAME"), std::string::npos) << text;
  EXPECT_NE(text.find("my-tpu"), std::string::npos) << text;
}

TEST_F(TpuResolve, ADeviceFileIsALocalTpu) {
  add_device_file();
  for (const char* name : {"", "local", "LOCAL", "tpu", "tpu:0", " local "}) {
    const Cluster cluster = find(name);
    EXPECT_EQ(cluster.name, "local") << name;
    EXPECT_EQ(cluster.workers, Strings{"localhost"});
    EXPECT_EQ(cluster.worker, 0);
    EXPECT_EQ(cluster.source, "device files");
    EXPECT_FALSE(cluster.several_hosts());
  }
}

TEST_F(TpuResolve, TheArgumentCountsBeforeTheVariable) {
  add_device_file();
  set("TPU_NAME", "first");
  EXPECT_EQ(find().name, "first");
  EXPECT_EQ(find("second").name, "second");
  EXPECT_EQ(find("local").name, "local");
}

TEST_F(TpuResolve, VariablesOfASliceAreRead) {
  set("TPU_WORKER_HOSTNAMES", "10.0.0.1, 10.0.0.2,10.0.0.3");
  set("TPU_WORKER_ID", "2");
  set("TPU_ACCELERATOR_TYPE", "v5litepod-16");
  const Cluster cluster = find();
  EXPECT_EQ(cluster.workers, (Strings{"10.0.0.1", "10.0.0.2", "10.0.0.3"}));
  EXPECT_EQ(cluster.worker, 2);
  EXPECT_EQ(cluster.accelerator, "v5litepod-16");
  EXPECT_EQ(cluster.source, "TPU_WORKER_HOSTNAMES");
  EXPECT_TRUE(cluster.several_hosts());
}

TEST_F(TpuResolve, TheVariablesOfANotebookMeanOneWorker) {  // as Kaggle and Colab set them
  set("TPU_PROCESS_ADDRESSES", "local");
  set("TPU_WORKER_HOSTNAMES", "");
  set("TPU_WORKER_ID", "0");
  const Cluster cluster = find();
  EXPECT_EQ(cluster.workers, Strings{"localhost"});
  EXPECT_FALSE(cluster.several_hosts());
}

TEST_F(TpuResolve, SeveralProcessesOnAHostHaveTaskNumbers) {
  set("TPU_WORKER_HOSTNAMES", "localhost");
  set("TPU_WORKER_ID", "0");
  set("TPU_PROCESS_ADDRESSES", "localhost:8476,localhost:8477");
  set("CLOUD_TPU_TASK_ID", "1");
  const Cluster cluster = find();
  EXPECT_EQ(cluster.workers, (Strings{"localhost:8476", "localhost:8477"}));
  EXPECT_EQ(cluster.worker, 1);
}

TEST_F(TpuResolve, SlicesAreCounted) {
  add_device_file();
  set("MEGASCALE_NUM_SLICES", "4");
  set("MEGASCALE_SLICE_ID", "3");
  EXPECT_EQ(find().slices, 4);
  EXPECT_EQ(find().slice, 3);
  EXPECT_TRUE(find().several_hosts());
  set("MEGASCALE_SLICE_ID", "4");
  failure(ErrorKind::kInvalidArgument);
  ::unsetenv("MEGASCALE_SLICE_ID");
  failure(ErrorKind::kInvalidArgument);
  set("MEGASCALE_NUM_SLICES", "0");
  failure(ErrorKind::kInvalidArgument);
}

TEST_F(TpuResolve, ContradictionsNameTheVariable) {
  const auto expect = [&](std::map<const char*, const char*> variables, const char* named,
                          const char* words) {
    SetUp();
    for (const auto& [name, value] : variables) set(name, value);
    const std::string text = failure(ErrorKind::kInvalidArgument);
    EXPECT_NE(text.find(named), std::string::npos) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  expect({{"TPU_WORKER_HOSTNAMES", "a,b"}, {"TPU_WORKER_ID", "2"}}, "TPU_WORKER_ID", "below 2");
  expect({{"TPU_WORKER_HOSTNAMES", "a,b"}}, "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID");
  expect({{"TPU_WORKER_HOSTNAMES", "a,,b"}, {"TPU_WORKER_ID", "0"}}, "TPU_WORKER_HOSTNAMES", "entry 2 of 3");
  expect({{"TPU_WORKER_HOSTNAMES", "a,b,"}, {"TPU_WORKER_ID", "0"}}, "TPU_WORKER_HOSTNAMES", "entry 3 of 3");
  for (const char* number : {"first", "1x", "-1", "99999999999", "1.0"})
    expect({{"TPU_WORKER_HOSTNAMES", "a,b"}, {"TPU_WORKER_ID", number}}, "TPU_WORKER_ID", number);
  expect({{"TPU_WORKER_HOSTNAMES", "a,b"}, {"TPU_WORKER_ID", "0"}, {"CLOUD_TPU_TASK_ID", "1"}},
         "TPU_WORKER_ID", "CLOUD_TPU_TASK_ID");
  expect({{"TPU_WORKER_HOSTNAMES", "a"}, {"TPU_ACCELERATOR_TYPE", "v4"}}, "TPU_ACCELERATOR_TYPE",
         "v5litepod-4");
  expect({{"TPU_WORKER_HOSTNAMES", "a,b"}, {"TPU_WORKER_ID", "0"}, {"TPU_ACCELERATOR_TYPE", "v6e-1"}},
         "TPU_ACCELERATOR_TYPE", "at least 2");
  add_device_file();
  set("TPU_WORKER_HOSTNAMES", "");
  set("TPU_ACCELERATOR_TYPE", "");
  set("TPU_WORKER_ID", "3");  // and nothing lists the others
  EXPECT_NE(failure(ErrorKind::kInvalidArgument).find("TPU_WORKER_ID"), std::string::npos);
}

TEST_F(TpuResolve, AddressesOfTpuNodesAreRefusedWithAdvice) {
  add_device_file();
  EXPECT_NE(failure(ErrorKind::kUnsupported, "grpc://10.1.2.3:8470").find("TPU VM"), std::string::npos);
  set("TPU_NAME", "grpc://10.1.2.3:8470");
  EXPECT_NE(failure(ErrorKind::kUnsupported).find("TPU_NAME"), std::string::npos);
  SetUp();
  std::filesystem::remove_all(folder_ / "dev");
  set("COLAB_TPU_ADDR", "10.1.2.3:8470");
  EXPECT_NE(failure(ErrorKind::kUnsupported).find("COLAB_TPU_ADDR"), std::string::npos);
}

TEST_F(TpuResolve, NamesThatCannotBeOnesAreRefused) {
  add_device_file();
  failure(ErrorKind::kInvalidArgument, "https://example.com");
  failure(ErrorKind::kInvalidArgument, "my tpu");
  failure(ErrorKind::kInvalidArgument, "a\nb");
}

TEST_F(TpuResolve, AnAddressIsOneOfTheWorkers) {
  set("TPU_WORKER_HOSTNAMES", "10.0.0.1,10.0.0.2");
  set("TPU_WORKER_ID", "0");
  EXPECT_EQ(find("10.0.0.2:8471").name, "10.0.0.2:8471");
  EXPECT_NE(failure(ErrorKind::kUnsupported, "10.0.0.9:8471").find("10.0.0.9"), std::string::npos);
}

TEST_F(TpuResolve, TheMetadataServerIsAskedOnlyWhenToldTo) {
  FakeServer server({{"*", FakeServer::missing()}});
  set("GCE_METADATA_HOST", server.place());
  add_device_file();
  find();
  EXPECT_EQ(server.requests(), 0);
  find({}, Metadata::ask);
  EXPECT_GT(server.requests(), 0);
  EXPECT_TRUE(server.well_asked());
}

TEST_F(TpuResolve, TheMetadataServerIsNotAskedWhatVariablesSay) {
  FakeServer server({{"*", FakeServer::missing()}});
  set("GCE_METADATA_HOST", server.place());
  set("TPU_WORKER_HOSTNAMES", "a,b");
  set("TPU_WORKER_ID", "1");
  set("TPU_ACCELERATOR_TYPE", "v5litepod-8");
  EXPECT_EQ(find({}, Metadata::ask).worker, 1);
  EXPECT_EQ(server.requests(), 0);
}

TEST_F(TpuResolve, TheMetadataServerDescribesTheSlice) {
  FakeServer server(
      {{"worker-network-endpoints",
        FakeServer::ok("unknown:unknown:10.164.0.7,unknown:unknown:10.164.0.8\n")},
       {"agent-worker-number", FakeServer::ok("1")},
       {"accelerator-type", FakeServer::ok("v5litepod-16")},
       {"tpu-env", FakeServer::ok("ACCELERATOR_TYPE: 'v5litepod-16'\nMEGASCALE_NUM_SLICES: '2'\n"
                                  "MEGASCALE_SLICE_ID: '1'\nNODE_ID: 'my-tpu'\nWORKER_ID: '1'\n")}});
  set("GCE_METADATA_IP", server.place());
  const Cluster cluster = find("my-tpu", Metadata::ask);
  EXPECT_EQ(cluster.name, "my-tpu");
  EXPECT_EQ(cluster.workers, (Strings{"10.164.0.7", "10.164.0.8"}));
  EXPECT_EQ(cluster.worker, 1);
  EXPECT_EQ(cluster.accelerator, "v5litepod-16");
  EXPECT_EQ(cluster.slices, 2);
  EXPECT_EQ(cluster.slice, 1);
  EXPECT_EQ(cluster.source, "metadata server");
  const std::string text = failure(ErrorKind::kInvalidArgument, "other-tpu", Metadata::ask);
  EXPECT_NE(text.find("my-tpu"), std::string::npos) << text;
}

TEST_F(TpuResolve, NewerMetadataListsHostNames) {
  FakeServer server({{"worker-network-endpoints", FakeServer::ok("t1v-w-0,t1v-w-1")},
                     {"agent-worker-number", FakeServer::ok("0")},
                     {"*", FakeServer::missing()}});
  set("GCE_METADATA_HOST", server.place());
  EXPECT_EQ(find({}, Metadata::ask).workers, (Strings{"t1v-w-0", "t1v-w-1"}));
}

TEST_F(TpuResolve, AMachineOfTheCloudWithoutATpuIsNotFound) {
  FakeServer server({{"*", FakeServer::missing()}});
  set("GCE_METADATA_HOST", server.place());
  EXPECT_NE(failure(ErrorKind::kNotFound, {}, Metadata::ask).find("metadata server"), std::string::npos);
  set("TPU_ACCELERATOR_TYPE", "v6e-4");  // says what a TPU would be, not that there is one
  failure(ErrorKind::kNotFound, {}, Metadata::ask);
}

TEST_F(TpuResolve, NonsenseFromTheMetadataServerIsAParseError) {
  const std::string flavor = "HTTP/1.0 200 OK\r\nMetadata-Flavor: Google\r\n";
  for (const std::string& reply :
       {std::string("garbage"), std::string(), std::string("\0\x1b[2J", 5), std::string("HTTP/1.0 200 OK"),
        std::string("HTTP/1.0 abc OK\r\nMetadata-Flavor: Google\r\n\r\n"),
        std::string("HTTP/1.0 200 OK\r\n\r\na captive portal"), flavor + "Content-Length: 50\r\n\r\nshort",
        flavor + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        FakeServer::ok("10.0.0.1,,10.0.0.2"), FakeServer::ok("a,\x1b[2J")}) {
    FakeServer server({{"worker-network-endpoints", reply}, {"*", FakeServer::missing()}});
    set("GCE_METADATA_HOST", server.place());
    const std::string text = failure(ErrorKind::kParse, {}, Metadata::ask);
    EXPECT_NE(text.find("worker-network-endpoints"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
  FakeServer server({{"worker-network-endpoints", FakeServer::ok("a,b")},
                     {"agent-worker-number", FakeServer::ok("seven")},
                     {"*", FakeServer::missing()}});
  set("GCE_METADATA_HOST", server.place());
  failure(ErrorKind::kParse, {}, Metadata::ask);
}

TEST_F(TpuResolve, ARefusalIsToldWithItsStatus) {
  const FakeServer::Replies replies = {{"*", "HTTP/1.0 403 Forbidden\r\nMetadata-Flavor: Google\r\n\r\n"}};
  FakeServer server(replies);
  set("GCE_METADATA_HOST", server.place());
  EXPECT_NE(failure(ErrorKind::kIo, {}, Metadata::ask).find("403"), std::string::npos);
}

TEST_F(TpuResolve, AHugeReplyIsCutOff) {
  FakeServer server({{"*", FakeServer::ok(std::string(8 << 20, 'a'))}});
  set("GCE_METADATA_HOST", server.place());
  failure(ErrorKind::kLimit, {}, Metadata::ask);
}

TEST_F(TpuResolve, ASlowServerCostsNoMoreThanTheLimit) {
  FakeServer server({{"*", FakeServer::ok("late")}}, 10s);
  set("GCE_METADATA_HOST", server.place());
  machine_.metadata_limit = 200ms;
  const auto start = Clock::now();
  EXPECT_NE(failure(ErrorKind::kIo, {}, Metadata::ask).find("0.2 s"), std::string::npos);
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST_F(TpuResolve, AServerThatIsNotThereIsAnIoError) {
  std::string place;
  {
    FakeServer server(FakeServer::Replies{});
    place = server.place();
  }
  set("GCE_METADATA_HOST", place);
  add_device_file();  // asked is asked: a slice of many hosts must not pass for one host
  failure(ErrorKind::kIo, {}, Metadata::ask);
  set("GCE_METADATA_HOST", std::string(64, 'a') + ".invalid");  // too long for a name server to be asked
  failure(ErrorKind::kIo, {}, Metadata::ask);
}

TEST_F(TpuResolve, AnAddressOfTheMetadataServerCannotSmuggleHeaders) {
  for (const char* bad : {"host\r\nX: y", "host:80:1", ":80", "host:", "host:port", "a b"}) {
    set("GCE_METADATA_HOST", bad);
    EXPECT_NE(failure(ErrorKind::kInvalidArgument, {}, Metadata::ask).find("GCE_METADATA_HOST"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace systole::tpu
