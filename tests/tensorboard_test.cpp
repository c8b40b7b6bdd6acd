// Event files: checksums, framing and fields byte by byte, what the tensorboard package wrote, and everything
// a SummaryWriter writes. scripts/check-tensorboard reads the last with the real package.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "error_check.h"
#include "io/crc32.h"
#include "io/protobuf.h"
#include "io/tfrecord.h"
#include "scratch_folder.h"
#include "systole/nn.h"
#include "systole/tensor.h"
#include "systole/train/tensorboard.h"
#include "train/graph_def.h"

namespace systole {
namespace {

namespace fs = std::filesystem;
namespace protobuf = io::protobuf;
using namespace std::string_literals;

std::uint32_t crc32c(const std::string& bytes) { return io::crc32c(0, std::as_bytes(std::span(bytes))); }

// RFC 3720, B.4.
TEST(Crc32c, VectorsOfIscsi) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising.push_back(static_cast<char>(i));
    falling.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(falling), 0x113FDB5Cu);
  const std::string read_command =
      "\x01\xc0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x14\0\0\0\0\0\x04\0\0\0\0\x14\0\0\0\x18\x28\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"s;
  ASSERT_EQ(read_command.size(), 48u);
  EXPECT_EQ(crc32c(read_command), 0xD9963A56u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  const auto half = std::as_bytes(std::span(rising));
  EXPECT_EQ(io::crc32c(io::crc32c(0, half.first(13)), half.subspan(13)), 0x46DD794Eu);
}

// The bytes of TensorFlow's own example of a record, and of an empty one (numbers by the masking rule).
TEST(TfRecord, FramesDataByHand) {
  std::string file;
  io::append_record(file, "");
  // crc32c of 8 zero bytes is 0x8C28B28A; turned right by 15 and added 0xA282EAD8: 0x07980329.
  // crc32c of nothing is 0, masked 0xA282EAD8.
  EXPECT_EQ(file, "\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2"s);
  io::append_record(file, "123456789");
  ASSERT_EQ(file.size(), 16u + 12 + 9 + 4);
  EXPECT_EQ(file.substr(16, 8), "\x09\0\0\0\0\0\0\0"s);
  // 0xE3069283 >> 15 | << 17 is 0x2507C60D; plus 0xA282EAD8: 0xC78AB0E5.
  EXPECT_EQ(file.substr(file.size() - 4), "\xe5\xb0\x8a\xc7"s);
}

TEST(TfRecord, AFileThatGrowsGivesWhatIsWhole) {
  std::string file;
  for (const std::string data : {"one", "", "three"}) io::append_record(file, data);
  const std::size_t whole[] = {0, 19, 35, 56};
  for (std::size_t size = 0; size <= file.size(); ++size) {
    const std::string part = file.substr(0, size);
    const auto source = memory_source(std::as_bytes(std::span(part)));
    io::RecordReader reader(*source, "log");
    std::size_t count = 0;
    while (reader.next()) ++count;
    EXPECT_EQ(count, size >= whole[3] ? 3u : size >= whole[2] ? 2u : size >= whole[1] ? 1u : 0u) << size;
  }
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string wrong = file;
    wrong[i] = static_cast<char>(wrong[i] ^ 0x10);
    const auto source = memory_source(std::as_bytes(std::span(wrong)));
    io::RecordReader reader(*source, "log");
    const std::string text = error_of(ErrorKind::kParse, [&] {
      while (reader.next()) {
      }
    });
    EXPECT_NE(text.find("log: byte "), std::string::npos) << text;
  }
}

// Examples of the protobuf documentation ("150" as field 1, "testing" as field 2) and hand calculation.
TEST(Protobuf, WritesTheWireFormat) {
  protobuf::Writer w;
  w.integer(1, 150);
  w.text(2, "testing");
  EXPECT_EQ(w.bytes(), "\x08\x96\x01\x12\x07testing"s);
  protobuf::Writer x;
  x.integer(1, -1);
  x.float32(2, 1.0f);
  x.float64(16, 1.0);
  x.boolean(3, true);
  x.packed(6, std::vector<std::int64_t>{3, 270, 86942});
  EXPECT_EQ(x.bytes(),
            "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x15\0\0\x80\x3f\x81\x01\0\0\0\0\0\0\xf0\x3f\x18\x01"
            "\x32\x06\x03\x8e\x02\x9e\xa7\x05"s);
}

TEST(Protobuf, ReadsBackAndRefusesWhatIsMalformed) {
  protobuf::Writer inner, w;
  inner.packed(4, std::vector<double>{0.5, -2});
  inner.float64(4, 7);
  w.message(1, inner);
  w.integer(2, -9);
  protobuf::Reader reader(w.bytes(), "m");
  protobuf::Field f;
  ASSERT_TRUE(reader.next(f));
  protobuf::Reader nested(f, reader);
  std::vector<double> doubles;
  for (protobuf::Field g; nested.next(g);) nested.append(g, doubles);
  EXPECT_EQ(doubles, (std::vector<double>{0.5, -2, 7}));
  ASSERT_TRUE(reader.next(f));
  EXPECT_EQ(f.integer(), -9);
  EXPECT_FALSE(reader.next(f));
  for (const std::string& wrong :
       {"\x08"s, "\x08\xff"s,
        "\x12\x05"
        "abc"s,
        "\x0b"s, "\x07\x01"s, "\x02\x01"s, "\x15\x01\x02"s, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"s,
        "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s}) {
    const std::string text = error_of(ErrorKind::kParse, [&] {
      protobuf::Reader r(wrong, "m", 100);
      for (protobuf::Field g; r.next(g);) {
      }
    });
    EXPECT_NE(text.find("m: byte 10"), std::string::npos) << text;
  }
}

TEST(Events, ReadsWhatTheRealPackageWrote) {
  const auto scalars = training::read_scalars(fs::path(SYSTOLE_TEST_DATA) / "events");
  ASSERT_EQ(scalars.size(), 3u);  // the text is no scalar
  const auto& loss = scalars.at("loss");
  ASSERT_EQ(loss.size(), 4u);
  const std::int64_t steps[] = {0, 1, 2, 300};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(loss[i].step, steps[i]);
    EXPECT_EQ(loss[i].value, 1.0f / static_cast<float>(steps[i] + 1));
    EXPECT_EQ(loss[i].wall_time, 1700000000.5 + static_cast<double>(steps[i]));
  }
  const auto& accuracy = scalars.at("accuracy");
  ASSERT_EQ(accuracy.size(), 3u);
  EXPECT_EQ(accuracy[1].value, 0.25);
  EXPECT_EQ(accuracy[2].value, 0.5);
  EXPECT_EQ(scalars.at("before")[0].step, -5);
  EXPECT_TRUE(std::isnan(scalars.at("before")[0].value));
}

struct Block {
  nn::Linear fc1{3, 4}, fc2{4, 4};
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
};
struct Net {
  Block encoder;
  nn::Linear head{4, 2};
  Tensor forward(const Tensor& x) const { return softmax(head(relu(encoder.forward(x)))); }
};

// Names and inputs of a GraphDef's nodes.
std::map<std::string, std::vector<std::string>> nodes_of(const std::string& graph) {
  std::map<std::string, std::vector<std::string>> nodes;
  protobuf::Reader reader(graph, "graph");
  for (protobuf::Field f; reader.next(f);) {
    if (f.number != 1) continue;
    protobuf::Reader node(f, reader);
    std::string name;
    std::vector<std::string> inputs;
    for (protobuf::Field g; node.next(g);) {
      if (g.number == 1) name = node.text(g);
      if (g.number == 3) inputs.emplace_back(node.text(g));
    }
    EXPECT_TRUE(nodes.emplace(name, inputs).second) << name << " is there twice";
  }
  return nodes;
}

TEST(Events, AGraphIsGroupedByModules) {
  const Net net;
  parameters(net);
  const auto forward = compile([&](const Tensor& x) { return net.forward(x); });
  const auto nodes = nodes_of(training::graph_def(forward.graph(ones({5, 3}))));
  std::set<std::string> boxes;
  for (const auto& [name, inputs] : nodes) {
    boxes.insert(name.substr(0, name.rfind('/') == std::string::npos ? 0 : name.rfind('/')));
    for (const std::string& input : inputs)
      EXPECT_TRUE(nodes.contains(input.substr(0, input.find(':')))) << name << " reads " << input;
  }
  EXPECT_EQ(boxes, (std::set<std::string>{"", "encoder", "encoder/fc1", "encoder/fc2", "head"}));
  EXPECT_TRUE(nodes.contains("encoder/fc1/weight") && nodes.contains("head/bias"));
}

class EventsTest : public ScratchFolder {};

// With SYSTOLE_TENSORBOARD_LOG set to a folder, the log is left there.
TEST_F(EventsTest, WritesEverything) {
  const char* wanted = std::getenv("SYSTOLE_TENSORBOARD_LOG");
  const fs::path folder = wanted != nullptr ? fs::path(wanted) : folder_ / "runs" / "one";
  {
    training::SummaryWriter board(folder);
    EXPECT_TRUE(board.file().filename().string().starts_with("events.out.tfevents."));
    for (int step = 0; step < 5; ++step) board.scalar("train/loss", 1.0 / (step + 1), step);
    board.scalar("bad", std::numeric_limits<double>::infinity(), 3);
    std::vector<std::uint8_t> pixels(2 * 4 * 6 * 3);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
    try {
      board.images("pictures", Literal::of<std::uint8_t>({2, 4, 6, 3}, pixels), 1);
      const Literal grey = Literal::of<std::uint8_t>({12, 12}, std::span<const std::uint8_t>(pixels));
      board.image("grey", grey, 1);
      board.image("grey", grey.reshaped({12, 12, 1}), 2);
      board.images("grey", grey.reshaped({3, 4, 12, 1}), 3);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUnsupported) << e.what();
    }
    board.histogram("weights", arange(0.0, 61.0).to(DType::f32),
                    2);  // 0 to 60: two in each bucket, three in the last
    board.histogram("same", full({7}, 2.5), 2);
    board.histogram("none", tensor({std::nan("")}, DType::f32), 2);
    board.text("note", "**bold** & <plain>", 0);
    board.graph(Net(), {1, 3});
    board.hparams({{"lr", 1e-3}, {"optimizer", "adam"}, {"epochs", 5}, {"amsgrad", true}},
                  {{"test/accuracy", 0.96875}});
    error_of(ErrorKind::kInvalidArgument, [&] { board.scalar("", 1, 1); });
    error_of(ErrorKind::kShape, [&] { board.image("x", Literal({DType::f32, {2, 2}}), 1); });
    error_of(ErrorKind::kShape, [&] { board.image("x", Literal({DType::u8, {2, 2, 2}}), 1); });
    board.flush();
    EXPECT_EQ(training::read_scalars(board.file()).size(), 3u);
  }
  const auto scalars = training::read_scalars(folder);
  ASSERT_EQ(scalars.at("train/loss").size(), 5u);
  EXPECT_EQ(scalars.at("train/loss")[2].value, 1.0f / 3);
  EXPECT_TRUE(std::isinf(scalars.at("bad")[0].value));
  EXPECT_EQ(scalars.at("test/accuracy")[0].value, 0.96875);
}

TEST_F(EventsTest, ThreadsShareAWriterAndWritersAFolder) {
  {
    training::SummaryWriter one(folder_), two(folder_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) (t % 2 == 0 ? one : two).scalar(t < 2 ? "a" : "b", i, i);
      });
    for (std::thread& thread : threads) thread.join();
  }
  const auto scalars = training::read_scalars(folder_);
  EXPECT_EQ(scalars.at("a").size(), 1000u);
  EXPECT_EQ(scalars.at("b").size(), 1000u);
}

TEST_F(EventsTest, APipeNamedAsAnEventFileIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "events.out.tfevents.1").c_str(), 0600), 0);
  const std::string text = error_of(ErrorKind::kParse, [&] { training::read_scalars(folder_); });
  EXPECT_NE(text.find("a regular file, got a pipe"), std::string::npos) << text;
}

TEST_F(EventsTest, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_ / "file") << "x";
  const std::string text =
      error_of(ErrorKind::kIo, [&] { training::SummaryWriter board(folder_ / "file" / "run"); });
  EXPECT_NE(text.find("file"), std::string::npos) << text;
  error_of(ErrorKind::kNotFound, [&] { training::read_scalars(folder_); });
  error_of(ErrorKind::kNotFound, [&] { training::read_scalars(folder_ / "absent"); });
}

}  // namespace
}  // namespace systole
