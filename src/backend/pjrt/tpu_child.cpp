#include "backend/pjrt/tpu_child.h"

#include <fmt/format.h>
#include <charconv>
#include <cstring>
#include <exception>
#include <string_view>

#include "backend/pjrt/child.h"
#include "backend/pjrt/plugin.h"
#include "backend/pjrt/topology.h"

namespace systole::pjrt {

namespace {

using Clock = std::chrono::steady_clock;

// Without these libtpu asks the cloud's metadata server for minutes, and only one process at a time can use
// it, as if it were a TPU; and it writes logs into the folder for temporary files. What they say of the
// machine is a formality where only topologies by name are wanted.
const std::vector<std::string> kVariables = {"TPU_SKIP_MDS_QUERY=1",
                                             "TPU_ACCELERATOR_TYPE=v5litepod-4",
                                             "TPU_WORKER_HOSTNAMES=localhost",
                                             "TPU_WORKER_ID=0",
                                             "TPU_HOST_BOUNDS=1,1,1",
                                             "TPU_LOG_DIR=disabled",
                                             "TPU_MIN_LOG_LEVEL=3",
                                             "ALLOW_MULTIPLE_LIBTPU_LOAD=1"};

// Questions and answers are lists of texts, each after its length; both processes are of one build.
class Texts {
 public:
  Texts() = default;
  explicit Texts(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  Texts& put(const T& value) {
    const std::string text = fmt::format("{}", value);
    const std::uint64_t size = text.size();
    bytes_.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes_ += text;
    return *this;
  }
  std::string text() {
    std::uint64_t size = 0;
    if (bytes_.size() - at_ < sizeof(size)) fail();
    std::memcpy(&size, bytes_.data() + at_, sizeof(size));
    at_ += sizeof(size);
    if (bytes_.size() - at_ < size) fail();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  template <class Number>
  Number number() {
    const std::string digits = text();
    Number value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) fail();
    return value;
  }
  bool at_end() const { return at_ == bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorKind::kUnsupported, "libtpu", "its process gave half an answer");
  }
  std::string bytes_;
  std::size_t at_ = 0;
};

std::string packed(const TpuQuestion& question) {
  Texts texts;
  texts.put(question.plugin.name).put(question.plugin.library.string()).put(question.plugin.source);
  texts.put(question.program).put(question.replicas).put(question.partitions);
  for (const TpuQuestion::Topology& topology : question.topologies)
    texts.put(topology.name).put(topology.chip_config);
  return texts.bytes();
}

TpuQuestion unpacked(std::string bytes) {
  Texts texts(std::move(bytes));
  TpuQuestion question;
  question.plugin.name = texts.text();
  question.plugin.library = texts.text();
  question.plugin.source = texts.text();
  question.program = texts.text();
  question.replicas = texts.number<std::int64_t>();
  question.partitions = texts.number<std::int64_t>();
  while (!texts.at_end()) {
    std::string name = texts.text();
    question.topologies.push_back({std::move(name), texts.text()});
  }
  return question;
}

constexpr std::string_view kAnswer = "answer", kError = "error";

std::string packed(const TpuAnswer& answer) {
  const ProgramFacts& p = answer.program;
  Texts texts;
  texts.put(kAnswer).put(answer.too_large).put(answer.executable).put(answer.compile_seconds);
  texts.put(p.argument_bytes).put(p.output_bytes).put(p.alias_bytes).put(p.temporary_bytes).put(p.code_bytes);
  texts.put(p.flops).put(p.bytes_accessed).put(p.optimal_seconds);
  for (const TopologyFacts& t : answer.topologies) texts.put(t.kind).put(t.devices).put(t.memory_bytes);
  return texts.bytes();
}

std::string packed(const Error& error) {
  Texts texts;
  texts.put(kError).put(static_cast<int>(error.kind()));
  return texts.put(error.message()).put(error.expected()).put(error.got()).bytes();
}

TpuAnswer unpacked_answer(std::string bytes) {
  Texts texts(std::move(bytes));
  if (texts.text() == kError) {
    const auto kind = static_cast<ErrorKind>(texts.number<int>());
    std::string message = texts.text(), expected = texts.text();
    throw Error(kind, "libtpu", std::move(message), std::move(expected), texts.text());
  }
  TpuAnswer answer;
  answer.too_large = texts.text();
  answer.executable = texts.text();
  answer.compile_seconds = texts.number<double>();
  ProgramFacts& p = answer.program;
  for (std::int64_t* bytes_of :
       {&p.argument_bytes, &p.output_bytes, &p.alias_bytes, &p.temporary_bytes, &p.code_bytes})
    *bytes_of = texts.number<std::int64_t>();
  for (double* figure : {&p.flops, &p.bytes_accessed, &p.optimal_seconds}) *figure = texts.number<double>();
  while (!texts.at_end()) {
    TopologyFacts& t = answer.topologies.emplace_back();
    t.kind = texts.text();
    t.devices = texts.number<std::int64_t>();
    t.memory_bytes = texts.number<std::int64_t>();
  }
  return answer;
}

TpuAnswer answer_to(const TpuQuestion& question) {
  TpuAnswer answer;
  const Plugin plugin(question.plugin);
  const Api& api = plugin.api();
  std::vector<TopologyDescription> topologies;
  for (const auto& [name, chip_config] : question.topologies) {
    topologies.emplace_back(api, name, chip_config);
    answer.topologies.push_back(topologies.back().facts());
  }
  if (question.program.empty()) return answer;
  Layout layout;
  layout.replicas = question.replicas;
  layout.partitions = question.partitions;
  layout.spmd = layout.shardy = question.partitions > 1;
  const Clock::time_point start = Clock::now();
  try {
    const CompiledExecutable program = topologies.at(0).compile(question.program, layout);
    answer.compile_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    answer.program = facts_of(api, program);
    answer.executable = serialized(api, program);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    answer.compile_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    answer.too_large = error.message();
  }
  return answer;
}

}  // namespace

TpuAnswer ask_tpu_compiler(const TpuQuestion& question, std::chrono::milliseconds limit) {
  ChildWork work;
  work.helper = find_helper();
  work.arguments = {kTpuQuestionCommand};
  work.here = answer_tpu_question;
  work.question = packed(question);
  work.variables = kVariables;
  work.limit = limit;
  ChildResult result = run_in_child(work, "libtpu");
  if (!result.failure.empty())
    throw Error(ErrorKind::kUnsupported, "libtpu",
                fmt::format("{} {} while it worked on {} in a process of its own{}",
                            question.plugin.library.string(), result.failure, question.topologies.at(0).name,
                            result.said.empty() ? "" : "; it said: " + result.said));
  return unpacked_answer(std::move(result.answer));
}

void answer_tpu_question() {
  std::string answer;
  try {
    answer = packed(answer_to(unpacked(read_all(kChildQuestion))));
  } catch (const Error& error) {
    answer = packed(error);
  } catch (const std::exception& error) {
    answer = packed(Error(ErrorKind::kUnsupported, "libtpu", error.what()));
  }
  answer_and_leave(answer);
}

}  // namespace systole::pjrt
