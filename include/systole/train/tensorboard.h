#pragma once

// Event files that TensorBoard shows, without TensorBoard.
//
//   training::SummaryWriter board("runs/mnist");
//   board.scalar("train/loss", loss, step);
//   board.histogram("fc1/weight", model.fc1.weight, step);
//   board.graph(model, {1, 784});
//
// A folder is a run; `tensorboard --logdir runs` shows all of them. What was written is in the file after
// flush() or the end of the writer; a process that dies loses at most what came since. Threads may share a
// writer.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/ir/graph.h"
#include "systole/nn/module.h"
#include "systole/nn/summary.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/tensor.h"
#include "systole/train/history.h"

namespace systole::training {

// A hyper-parameter: a number, a word or a switch.
struct HParam {
  enum class Kind { number, text, flag };
  Kind kind = Kind::number;
  double number = 0;
  std::string text;
  bool flag = false;

  template <class T>
    requires std::is_arithmetic_v<T>
  HParam(T value) : kind(std::same_as<T, bool> ? Kind::flag : Kind::number) {
    if constexpr (std::same_as<T, bool>)
      flag = value;
    else
      number = static_cast<double>(value);
  }
  HParam(std::string value) : kind(Kind::text), text(std::move(value)) {}
  HParam(std::string_view value) : HParam(std::string(value)) {}
  HParam(const char* value) : HParam(std::string(value)) {}
};
using HParams = std::map<std::string, HParam>;

class SYSTOLE_API SummaryWriter {
 public:
  // Makes the folder and in it a new file events.out.tfevents.…; throws kIo.
  explicit SummaryWriter(const std::filesystem::path& folder);
  ~SummaryWriter();
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;

  void scalar(std::string_view tag, double value, std::int64_t step);
  // u8[height,width] or u8[height,width,3]. Throws kUnsupported when the library was built without libpng.
  void image(std::string_view tag, const Literal& picture, std::int64_t step);
  // Several pictures under one tag, u8[count,height,width] or u8[count,height,width,3].
  void images(std::string_view tag, const Literal& pictures, std::int64_t step);
  // How the values are distributed; NaN and infinite values are left out.
  void histogram(std::string_view tag, const Tensor& values, std::int64_t step, int buckets = 30);
  void text(std::string_view tag, std::string_view markdown, std::int64_t step);
  // The settings of this run and, when they are known, what they led to: the table of TensorBoard's HPARAMS.
  // The metrics are also written as scalars.
  void hparams(const HParams& settings, const std::map<std::string, double>& metrics = {});
  // Ops as nodes, grouped by the modules they belong to.
  void graph(const ir::Graph& graph);
  template <nn::Module M>
  void graph(const M& module, Shape input, DType dtype = DType::f32);

  void flush();  // to the operating system
  const std::filesystem::path& file() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct ScalarPoint {
  std::int64_t step = 0;
  double value = 0;
  double wall_time = 0;  // seconds since 1970
};
// The scalars of an event file or of all event files of a folder, by tag in the order of steps. A file whose
// last record is cut off (a run that goes on, or died) gives what is whole; a wrong checksum is kParse.
SYSTOLE_API std::map<std::string, std::vector<ScalarPoint>> read_scalars(const std::filesystem::path& log);

template <nn::Module M>
void SummaryWriter::graph(const M& module, Shape input, DType dtype) {
  const nn::Inventory found = nn::inventory(module);
  const nn::detail::Modes modes(found);
  nn::detail::set_training(found, false);
  const auto forward = compile([&](const Tensor& x) { return nn::apply(module, x); });
  graph(forward.graph(nn::detail::stand_in(std::move(input), dtype)));
}

}  // namespace systole::training
