#include "backend/pjrt/executable.h"

#include <fmt/format.h>
#include <algorithm>
#include <typeinfo>

#include "base/log.h"

namespace systole::pjrt {

namespace {

using runtime::BufferRef;
using runtime::RunArguments;

class PjrtSession final : public runtime::Session {
 public:
  explicit PjrtSession(std::shared_ptr<const Program> program)
      : program_(std::move(program)),
        held_(program_->lists, std::vector<ShardsRef>(program_->inputs.size())),
        arguments_(program_->devices, std::vector<PJRT_Buffer*>(program_->inputs.size())),
        results_(program_->devices, std::vector<PJRT_Buffer*>(program_->outputs.size())) {}

  std::vector<std::vector<BufferRef>> run(const RunArguments& arguments) override {
    check_counts(arguments);
    for (std::size_t list = 0; list < program_->lists; ++list)
      for (std::size_t i = 0; i < program_->inputs.size(); ++i)
        held_[list][i] = shards_of(arguments.per_device[list][i], list, i);
    choose_kept(arguments.donated);
    std::vector<std::vector<BufferRef>> results;
    try {
      execute();
      results = take_results(arguments);
    } catch (...) {
      let_go();
      throw;
    }
    let_go();
    return results;
  }

 private:
  [[noreturn]] void refuse(ErrorKind kind, std::string message, std::string expected = {},
                           std::string got = {}) const {
    throw Error(kind, program_->first.to_string(), std::move(message), std::move(expected), std::move(got));
  }

  void check_counts(const RunArguments& arguments) const {
    const std::size_t count = program_->inputs.size();
    if (arguments.per_device.size() != program_->lists)
      refuse(ErrorKind::kInvalidArgument, "wrong number of argument lists", std::to_string(program_->lists),
             std::to_string(arguments.per_device.size()));
    for (const std::vector<BufferRef>& list : arguments.per_device)
      if (list.size() != count)
        refuse(ErrorKind::kInvalidArgument, "wrong number of arguments", std::to_string(count),
               std::to_string(list.size()));
    for (const int i : arguments.donated)
      if (i < 0 || static_cast<std::size_t>(i) >= count)
        refuse(ErrorKind::kInvalidArgument, "donated argument out of range",
               fmt::format("an index below {}", count), std::to_string(i));
  }

  // The argument's value where the program wants it; one that lies elsewhere is copied over the host.
  ShardsRef shards_of(const BufferRef& buffer, std::size_t list, std::size_t i) const {
    const auto what = [&] { return fmt::format("argument {} ({})", i, program_->names[i]); };
    const runtime::Buffer* const given = buffer.get();
    if (given == nullptr || typeid(*given) != typeid(ArrayBuffer) ||
        &static_cast<const ArrayBuffer&>(*given).client() != program_->client.get())
      refuse(ErrorKind::kInvalidArgument, what(), "a buffer of this backend",
             given != nullptr ? given->device().to_string() : "none");
    const Type &wanted = program_->inputs[i], &got = given->type();
    if (!(got == wanted))
      refuse(got.dtype == wanted.dtype ? ErrorKind::kShape : ErrorKind::kDType, what(), wanted.to_string(),
             got.to_string());
    ShardsRef shards = static_cast<const ArrayBuffer&>(*given).shards();
    if (!shards)
      refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated", {},
             fmt::format("{} {}", what(), got.to_string()));
    const PlacementRef& place = program_->arguments[list][i];
    if (shards->placement == place || *shards->placement == *place) return shards;
    log(LogLevel::debug,
        fmt::format("{}: {} is moved to other devices", program_->first.to_string(), what()));
    return upload(*program_->client, download(*program_->client, *shards, wanted), place);
  }

  // The inputs whose memory the program may not take: those not donated, and those that are the same array
  // as another argument.
  void choose_kept(const std::vector<int>& donated) {
    kept_.clear();
    for (std::size_t i = 0; i < program_->inputs.size(); ++i) {
      bool free = std::find(donated.begin(), donated.end(), static_cast<int>(i)) != donated.end();
      for (const std::vector<ShardsRef>& list : held_)
        free = free && std::count(list.begin(), list.end(), list[i]) == 1;
      if (!free) kept_.push_back(static_cast<std::int64_t>(i));
    }
  }

  void execute() {
    const Api& api = program_->client->api();
    const bool many = program_->lists > 1;
    for (std::size_t d = 0; d < program_->devices; ++d) {
      for (std::size_t i = 0; i < program_->inputs.size(); ++i)
        arguments_[d][i] = held_[many ? d : 0][i]->buffers[many ? 0 : d].get();
      std::fill(results_[d].begin(), results_[d].end(), nullptr);
    }
    argument_lists_.clear();
    result_lists_.clear();
    for (std::size_t d = 0; d < program_->devices; ++d) {
      argument_lists_.push_back(arguments_[d].data());
      result_lists_.push_back(results_[d].data());
    }
    PJRT_ExecuteOptions options{PJRT_ExecuteOptions_STRUCT_SIZE};
    options.non_donatable_input_indices = kept_.data();
    options.num_non_donatable_input_indices = kept_.size();
    SYSTOLE_PJRT_ARGS(PJRT_LoadedExecutable_Execute, args);
    args.executable = program_->executable.get();
    args.options = &options;
    args.argument_lists = argument_lists_.data();
    args.num_devices = program_->devices;
    args.num_args = program_->inputs.size();
    args.output_lists = result_lists_.data();
    SYSTOLE_PJRT_CALL(api, PJRT_LoadedExecutable_Execute, args);
  }

  std::vector<std::vector<BufferRef>> take_results(const RunArguments& arguments) {
    const Api& api = program_->client->api();
    const bool many = program_->lists > 1;
    std::vector<std::vector<DeviceBuffer>> owned(program_->devices);
    for (std::size_t d = 0; d < program_->devices; ++d)
      for (PJRT_Buffer*& buffer : results_[d]) owned[d].emplace_back(api, std::exchange(buffer, nullptr));
    std::vector<std::vector<BufferRef>> results(program_->lists);
    for (std::size_t list = 0; list < program_->lists; ++list) {
      for (const int i : arguments.donated) array(arguments.per_device[list], i).set(nullptr);
      results[list].resize(program_->outputs.size());
      std::vector<ShardsRef> values;
      for (std::size_t o = 0; o < program_->outputs.size(); ++o) {
        auto shards = std::make_shared<Shards>();
        shards->placement = program_->results[list][o];
        for (std::size_t d = many ? list : 0; d < (many ? list + 1 : program_->devices); ++d) {
          if (!owned[d][o]) refuse(ErrorKind::kUnsupported, fmt::format("the plugin gave no output {}", o));
          shards->buffers.push_back(std::move(owned[d][o]));
        }
        values.push_back(std::move(shards));
      }
      give_back(arguments.per_device[list], arguments.donated, values, results[list]);
      for (std::size_t o = 0; o < values.size(); ++o) {
        if (results[list][o]) continue;
        DeviceName device = program_->first;
        device.ordinal += static_cast<int>(list);
        results[list][o] = std::make_shared<ArrayBuffer>(program_->client, program_->outputs[o],
                                                         std::move(device), std::move(values[o]));
      }
    }
    return results;
  }

  static ArrayBuffer& array(const std::vector<BufferRef>& list, int i) {
    return static_cast<ArrayBuffer&>(*list[static_cast<std::size_t>(i)]);
  }

  // The result that a donated argument's input aliases goes into the argument's Buffer. A Buffer that was
  // donated twice takes one result.
  void give_back(const std::vector<BufferRef>& arguments, const std::vector<int>& donated,
                 std::vector<ShardsRef>& values, std::vector<BufferRef>& results) const {
    for (const int i : donated) {
      const std::int64_t alias = program_->aliases[static_cast<std::size_t>(i)];
      if (alias < 0) continue;
      const auto output = static_cast<std::size_t>(alias);
      if (results[output] || array(arguments, i).shards()) continue;
      array(arguments, i).set(std::move(values[output]));
      results[output] = arguments[static_cast<std::size_t>(i)];
    }
  }

  void let_go() {
    for (std::vector<ShardsRef>& list : held_) std::fill(list.begin(), list.end(), nullptr);
  }

  const std::shared_ptr<const Program> program_;
  // Kept between runs for their memory.
  std::vector<std::vector<ShardsRef>> held_;
  std::vector<std::vector<PJRT_Buffer*>> arguments_, results_;
  std::vector<PJRT_Buffer**> argument_lists_, result_lists_;
  std::vector<std::int64_t> kept_;
};

class PjrtExecutable final : public runtime::Executable {
 public:
  explicit PjrtExecutable(Program program) : program_(std::make_shared<const Program>(std::move(program))) {}
  std::unique_ptr<runtime::Session> new_session() const override {
    return std::make_unique<PjrtSession>(program_);
  }
  std::int64_t device_count() const override { return static_cast<std::int64_t>(program_->lists); }

 private:
  const std::shared_ptr<const Program> program_;
};

}  // namespace

std::shared_ptr<const runtime::Executable> make_executable(Program program) {
  const std::size_t given = program.client->output_count(program.executable);
  if (given != program.outputs.size())
    throw Error(ErrorKind::kUnsupported, program.first.to_string(), "the compiled program's outputs",
                std::to_string(program.outputs.size()), std::to_string(given));
  return std::make_shared<PjrtExecutable>(std::move(program));
}

}  // namespace systole::pjrt
