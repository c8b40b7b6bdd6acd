// Event files: TFRecords of TensorFlow's Event messages, whose field numbers stand here as they do in
// tensorboard/compat/proto. Summaries are in the form of TensorFlow 2 (a tensor and the name of the plugin
// that shows it), except scalars, which every reader takes as simple_value.

#include "systole/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "io/protobuf.h"
#include "io/tfrecord.h"
#include "systole/base/error.h"
#include "systole/io.h"
#include "train/graph_def.h"

namespace systole::training {

namespace {

using io::protobuf::Writer;

constexpr std::int64_t kDouble = 2, kFloat = 1, kString = 7;  // TensorFlow's DataType
constexpr std::size_t kBuffer = std::size_t{1} << 16;
constexpr std::chrono::seconds kLongestWait{5};

double now() {
  using Seconds = std::chrono::duration<double>;
  return std::chrono::duration_cast<Seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// No two writers of a machine share a file.
std::string file_name() {
  static std::atomic<int> count{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string name = host.data();
  std::replace(name.begin(), name.end(), '/', '_');
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<std::int64_t>(now()),
                     name.empty() ? "localhost" : name, ::getpid(), count++);
}

Writer shape_of(std::initializer_list<std::int64_t> dims) {
  Writer shape;
  for (const std::int64_t size : dims) {
    Writer dim;
    dim.integer(1, size);
    shape.message(2, dim);
  }
  return shape;
}

// Which plugin shows a value, and what it wants to know.
Writer metadata(std::string_view plugin, std::string_view content = {}) {
  constexpr std::int64_t kTensor = 2;  // DATA_CLASS_TENSOR
  Writer data, metadata;
  data.text(1, plugin);
  if (!content.empty()) data.text(2, content);
  metadata.message(1, data);
  metadata.integer(4, kTensor);
  return metadata;
}

Writer string_tensor(std::span<const std::string> values) {
  Writer tensor;
  tensor.integer(1, kString);
  tensor.message(2, shape_of({static_cast<std::int64_t>(values.size())}));
  for (const std::string& value : values) tensor.text(8, value);
  return tensor;
}

// google.protobuf.Value
Writer value_of(const HParam& param) {
  Writer value;
  switch (param.kind) {
    case HParam::Kind::number: value.float64(2, param.number); break;
    case HParam::Kind::text: value.text(3, param.text); break;
    case HParam::Kind::flag: value.boolean(4, param.flag); break;
  }
  return value;
}

// [buckets, 3]: the left and right limit of each bucket, and how many values are in it.
std::vector<double> bucketed(const std::vector<double>& values, int buckets) {
  std::vector<double> rows;
  if (values.empty()) return rows;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double low = *least, high = *most, width = (high - low) / buckets;
  std::vector<double> counts(static_cast<std::size_t>(buckets));
  const bool spread = high > low && std::isfinite(width) && width > 0;
  for (const double v : values) {
    const double place = spread ? std::floor((v - low) / width) : buckets - 1;
    ++counts[static_cast<std::size_t>(std::clamp(place, 0.0, buckets - 1.0))];
  }
  for (int i = 0; i < buckets; ++i) {
    const double left = spread ? low + width * i : low;
    const double right = !spread || i + 1 == buckets ? high : low + width * (i + 1);
    rows.insert(rows.end(), {left, right, counts[static_cast<std::size_t>(i)]});
  }
  return rows;
}

}  // namespace

struct SummaryWriter::State {
  std::filesystem::path file;
  int descriptor = -1;
  std::mutex mutex;
  std::string buffer;
  std::chrono::steady_clock::time_point flushed = std::chrono::steady_clock::now();

  ~State() {
    if (descriptor >= 0) ::close(descriptor);
  }

  // One event of one summary value, field 5; or of a graph, field 4.
  void event(int field, std::string_view content, std::int64_t step) {
    Writer event;
    event.float64(1, now());
    event.integer(2, step);
    event.text(field, content);
    write(event);
  }

  void write(const Writer& event) {
    const std::lock_guard lock(mutex);
    io::append_record(buffer, event.bytes());
    if (buffer.size() >= kBuffer || std::chrono::steady_clock::now() - flushed >= kLongestWait) drain();
  }

  // The value's fields after its tag: a tensor (8) or a simple_value (2), and metadata (9).
  template <class Fill>
  void value(std::string_view tag, std::int64_t step, Fill&& fill) {
    if (tag.empty())
      throw Error(ErrorKind::kInvalidArgument, "SummaryWriter", "a value needs a tag", "a name", "\"\"");
    Writer value, summary;
    value.text(1, tag);
    fill(value);
    summary.message(1, value);
    event(5, summary.bytes(), step);
  }

  void drain() {
    std::string_view left = buffer;
    while (!left.empty()) {
      const ssize_t wrote = ::write(descriptor, left.data(), left.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        const int code = errno;
        buffer.erase(0, buffer.size() - left.size());  // what is in the file is not written again
        throw Error(ErrorKind::kIo, file.string(), fmt::format("cannot write: {}", std::strerror(code)));
      }
      left.remove_prefix(static_cast<std::size_t>(wrote));
    }
    buffer.clear();
    flushed = std::chrono::steady_clock::now();
  }
};

SummaryWriter::SummaryWriter(const std::filesystem::path& folder) : state_(std::make_unique<State>()) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw Error(ErrorKind::kIo, folder.string(), "cannot make the folder: " + code.message());
  state_->file = folder / file_name();
  state_->descriptor = ::open(state_->file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (state_->descriptor < 0)
    throw Error(ErrorKind::kIo, state_->file.string(), fmt::format("cannot open: {}", std::strerror(errno)));
  Writer first, source;
  first.float64(1, now());
  first.text(3, "brain.Event:2");
  source.text(1, "systole.train.SummaryWriter");
  first.message(10, source);
  state_->write(first);
  flush();
}

SummaryWriter::~SummaryWriter() {
  if (state_ == nullptr) return;
  try {
    flush();
  } catch (const Error&) {  // flush() tells those who ask
  }
}

SummaryWriter::SummaryWriter(SummaryWriter&&) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&& other) noexcept {
  if (this != &other) {
    SummaryWriter old(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

void SummaryWriter::flush() {
  const std::lock_guard lock(state_->mutex);
  state_->drain();
}

const std::filesystem::path& SummaryWriter::file() const { return state_->file; }

void SummaryWriter::scalar(std::string_view tag, double value, std::int64_t step) {
  state_->value(tag, step, [&](Writer& out) { out.float32(2, static_cast<float>(value)); });
}

void SummaryWriter::image(std::string_view tag, const Literal& picture, std::int64_t step) {
  Shape one{1};
  for (const Dim& dim : picture.shape()) one.push_back(dim);
  images(tag, picture.reshaped(one), step);
}

void SummaryWriter::images(std::string_view tag, const Literal& pictures, std::int64_t step) {
  const Shape& shape = pictures.shape();
  const bool colours = shape.rank() == 4 && shape[3] == Dim(3);
  const bool grey = shape.rank() == 3 || (shape.rank() == 4 && shape[3] == Dim(1));
  if (pictures.dtype() != DType::u8 || pictures.count() == 0 || (!grey && !colours))
    throw Error(ErrorKind::kShape, "SummaryWriter", fmt::format("\"{}\" is no picture", tag),
                "u8[height,width], u8[height,width,1] or u8[height,width,3]", pictures.type().to_string());
  const std::int64_t count = shape[0].value(), height = shape[1].value(), width = shape[2].value();
  const std::size_t size = pictures.byte_size() / static_cast<std::size_t>(count);
  const Shape one = colours ? Shape{height, width, 3} : Shape{height, width};
  std::vector<std::string> strings{std::to_string(width), std::to_string(height)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bytes = pictures.as_bytes().subspan(static_cast<std::size_t>(i) * size, size);
    const std::vector<std::byte> png = io::png_bytes(Literal::copy_of({DType::u8, one}, bytes));
    strings.emplace_back(reinterpret_cast<const char*>(png.data()), png.size());
  }
  state_->value(tag, step, [&](Writer& out) {
    out.message(8, string_tensor(strings));
    out.message(9, metadata("images"));
  });
}

void SummaryWriter::histogram(std::string_view tag, const Tensor& values, std::int64_t step, int buckets) {
  if (buckets < 1)
    throw Error(ErrorKind::kInvalidArgument, "SummaryWriter", "a histogram needs buckets", "at least 1",
                std::to_string(buckets));
  std::vector<double> finite = values.literal().to_doubles();
  std::erase_if(finite, [](double v) { return !std::isfinite(v); });
  const std::vector<double> rows = bucketed(finite, buckets);
  Writer tensor;
  tensor.integer(1, kDouble);
  tensor.message(2, shape_of({static_cast<std::int64_t>(rows.size() / 3), 3}));
  tensor.bytes(4, std::as_bytes(std::span(rows)));
  state_->value(tag, step, [&](Writer& out) {
    out.message(8, tensor);
    out.message(9, metadata("histograms"));
  });
}

void SummaryWriter::text(std::string_view tag, std::string_view markdown, std::int64_t step) {
  const std::string value(markdown);
  state_->value(tag, step, [&](Writer& out) {
    out.message(8, string_tensor({&value, 1}));
    out.message(9, metadata("text"));
  });
}

void SummaryWriter::hparams(const HParams& settings, const std::map<std::string, double>& metrics) {
  // Each is a value whose content is in its metadata; the tensor only makes it one.
  const auto write = [&](std::string_view tag, const Writer& content) {
    Writer null;
    null.integer(1, kFloat);
    null.message(2, Writer());
    null.float32(5, 0);
    state_->value(tag, 0, [&](Writer& out) {
      out.message(8, null);
      out.message(9, metadata("hparams", content.bytes()));
    });
  };
  // The table's columns. Without metrics TensorBoard takes all scalars of all runs.
  if (!metrics.empty()) {
    Writer experiment, content;
    experiment.float64(3, now());
    for (const auto& [name, param] : settings) {
      constexpr std::int64_t kTypes[] = {3, 1, 2};  // DATA_TYPE_FLOAT64, STRING, BOOL
      Writer info;
      info.text(1, name);
      info.integer(4, kTypes[static_cast<int>(param.kind)]);
      experiment.message(4, info);
    }
    for (const auto& [tag, value] : metrics) {
      Writer name, info;
      name.text(2, tag);
      info.message(1, name);
      experiment.message(5, info);
    }
    content.message(2, experiment);
    write("_hparams_/experiment", content);
  }
  Writer start, start_content;
  for (const auto& [name, param] : settings) {
    Writer entry;
    entry.text(1, name);
    entry.message(2, value_of(param));
    start.message(1, entry);
  }
  start.float64(5, now());
  start_content.message(3, start);
  write("_hparams_/session_start_info", start_content);
  if (metrics.empty()) return;
  Writer end, end_content;
  end.integer(1, 1);  // STATUS_SUCCESS
  end.float64(2, now());
  end_content.message(4, end);
  write("_hparams_/session_end_info", end_content);
  for (const auto& [tag, value] : metrics) scalar(tag, value, 0);
}

void SummaryWriter::graph(const ir::Graph& graph) { state_->event(4, graph_def(graph), 0); }

}  // namespace systole::training
