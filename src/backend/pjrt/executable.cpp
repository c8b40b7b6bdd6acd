#include "backend/pjrt/executable.h"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <typeinfo>

#include "base/log.h"
#include "runtime/timeline.h"

namespace systole::pjrt {

namespace {

using runtime::BufferRef;
using runtime::RunArguments;

// Whether nobody else holds the array; whoever did is done with it, and this thread sees that.
bool is_sole(const ShardsRef& shards) {
  if (shards.use_count() != 1) return false;
#if !defined(__SANITIZE_THREAD__)                       // which knows no fences
  std::atomic_thread_fence(std::memory_order_acquire);  // use_count() orders nothing
#endif
  return true;
}

// What a run needs is allocated with the session. Donated arrays are taken out of their Buffers first: an
// array that nobody else holds then may be overwritten, and its Shards go on to hold the result.
class PjrtSession final : public runtime::Session {
 public:
  explicit PjrtSession(std::shared_ptr<const Program> program)
      : program_(std::move(program)),
        donated_(program_->inputs.size()),
        held_(program_->lists, std::vector<ShardsRef>(program_->inputs.size())),
        copy_(program_->lists, std::vector<std::size_t>(program_->inputs.size())),
        known_(program_->lists, std::vector<PlacementRef>(program_->inputs.size())),
        arguments_(program_->devices, std::vector<PJRT_Buffer*>(program_->inputs.size())),
        results_(program_->devices, std::vector<PJRT_Buffer*>(program_->outputs.size())) {
    for (std::size_t d = 0; d < program_->devices; ++d) {
      argument_lists_.push_back(arguments_[d].data());
      result_lists_.push_back(results_[d].data());
    }
  }

  std::vector<std::vector<BufferRef>> run(const RunArguments& arguments) override {
    check_counts(arguments);
    try {
      hold(arguments);
      execute();
    } catch (...) {
      restore(arguments);
      let_go();
      throw;
    }
    std::vector<std::vector<BufferRef>> results;
    try {
      results = take_results(arguments);
    } catch (...) {
      let_go();
      throw;
    }
    let_go();
    return results;
  }

  BufferRef placed(const BufferRef& buffer, std::size_t input) override {
    if (program_->lists > 1 || program_->devices == 1) return buffer;
    const PlacementRef& place = program_->arguments[0][input];
    const runtime::Buffer* const given = buffer.get();
    if (typeid(*given) == typeid(ArrayBuffer)) {
      const auto& array = static_cast<const ArrayBuffer&>(*given);
      const ShardsRef shards = array.shards();
      if (&array.client() == program_->client.get() && (!shards || *shards->placement() == *place))
        return buffer;
    }
    return std::make_shared<ArrayBuffer>(
        program_->client, program_->inputs[input], program_->first,
        upload(*program_->client, buffer->to_host(), place, program_->first));
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

  std::string label(std::size_t i) const { return fmt::format("argument {} ({})", i, program_->names[i]); }

  ArrayBuffer& checked(const BufferRef& buffer, std::size_t i) const {
    runtime::Buffer* const given = buffer.get();
    if (given == nullptr || typeid(*given) != typeid(ArrayBuffer) ||
        &static_cast<ArrayBuffer&>(*given).client() != program_->client.get())
      refuse(ErrorKind::kInvalidArgument, label(i), "a buffer of this backend",
             given != nullptr ? given->device().to_string() : "none");
    const Type &wanted = program_->inputs[i], &got = given->type();
    if (!(got == wanted))
      refuse(got.dtype == wanted.dtype ? ErrorKind::kShape : ErrorKind::kDType, label(i), wanted.to_string(),
             got.to_string());
    return static_cast<ArrayBuffer&>(*given);
  }

  void hold(const RunArguments& arguments) {
    std::fill(donated_.begin(), donated_.end(), false);
    for (const int i : arguments.donated) donated_[static_cast<std::size_t>(i)] = true;
    repeated_ = false;
    for (std::size_t list = 0; list < program_->lists; ++list)
      for (std::size_t i = 0; i < program_->inputs.size(); ++i) {
        ArrayBuffer& given = checked(arguments.per_device[list][i], i);
        ShardsRef shards = donated_[i] ? given.take() : given.shards();
        if (!shards) shards = held_already(arguments, list, i);
        held_[list][i] = shards;  // for restore(), should the move to another device fail
        held_[list][i] = where_wanted(std::move(shards), list, i);
      }
  }

  // The array of a Buffer that an argument before this one donated.
  ShardsRef held_already(const RunArguments& arguments, std::size_t list, std::size_t i) {
    const BufferRef& wanted = arguments.per_device[list][i];
    for (std::size_t l = 0; l <= list; ++l)
      for (std::size_t j = 0; j < (l < list ? program_->inputs.size() : i); ++j)
        if (arguments.per_device[l][j] == wanted) {
          repeated_ = true;
          return held_[l][j];
        }
    refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated", {},
           fmt::format("{} {}", label(i), program_->inputs[i].to_string()));
  }

  // The value where the program wants it. Of one that is whole on several devices, the copy there is taken;
  // one that lies elsewhere is copied over the host.
  ShardsRef where_wanted(ShardsRef shards, std::size_t list, std::size_t i) {
    const PlacementRef& place = program_->arguments[list][i];
    PlacementRef& other = known_[list][i];
    copy_[list][i] = 0;
    if (shards->placement() == place || shards->placement() == other) return shards;
    if (*shards->placement() == *place) {
      other = shards->placement();
      return shards;
    }
    const std::vector<int>& there = shards->placement()->ordinals;
    const auto here = std::find(there.begin(), there.end(), place->ordinals[0]);
    if (place->ordinals.size() == 1 && shards->placement()->part == place->part && here != there.end()) {
      copy_[list][i] = static_cast<std::size_t>(here - there.begin());
      return shards;
    }
    log(LogLevel::debug,
        fmt::format("{}: {} is moved to other devices", program_->first.to_string(), label(i)));
    const Client& client = *program_->client;
    return upload(client, download(client, *shards, program_->inputs[i], program_->first), place,
                  program_->first);
  }

  // After a failure the Buffers have what was taken from them.
  void restore(const RunArguments& arguments) {
    for (std::size_t list = 0; list < program_->lists; ++list)
      for (std::size_t i = 0; i < program_->inputs.size(); ++i)
        if (donated_[i] && held_[list][i]) array(arguments, list, i).set(held_[list][i]);
  }

  void execute() {
    const bool many = program_->lists > 1;
    kept_.clear();
    for (std::size_t i = 0; i < program_->inputs.size(); ++i) {
      bool free = donated_[i];
      for (const std::vector<ShardsRef>& list : held_)
        free = free && is_sole(list[i]) && list[i]->buffers.size() == (many ? 1 : program_->devices);
      if (!free) kept_.push_back(static_cast<std::int64_t>(i));
    }
    for (std::size_t d = 0; d < program_->devices; ++d)
      for (std::size_t i = 0; i < program_->inputs.size(); ++i)
        arguments_[d][i] = held_[many ? d : 0][i]->buffers[copy_[many ? d : 0][i] + (many ? 0 : d)].get();
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
    if (program_->devices > 1)
      launch_together(args);
    else
      launch(args, timeline::is_on() ? After::settle : After::nothing);
  }

  // What is done about a launch that is under way: under a timeline a run is its work, not its beginning.
  enum class After { nothing, settle, check };

  void launch(PJRT_LoadedExecutable_Execute_Args& args, After after) {
    const Api& api = program_->client->api();
    if (after == After::nothing) return SYSTOLE_PJRT_CALL(api, PJRT_LoadedExecutable_Execute, args);
    const std::int64_t begin = timeline::now();
    std::vector<PJRT_Event*> done(program_->devices, nullptr);
    args.device_complete_events = done.data();
    SYSTOLE_PJRT_CALL(api, PJRT_LoadedExecutable_Execute, args);
    std::vector<Event> events;
    for (PJRT_Event* event : done) events.emplace_back(api, event);
    for (std::size_t d = 0; d < events.size(); ++d) {
      if (after == After::check)
        await(api, events[d], "PJRT_LoadedExecutable_Execute");
      else
        settle(api, events[d]);  // the results tell of a failure
      if (d > 0 && timeline::is_on()) record_run(d, begin);
    }
  }

  // The run as a further device has it; of the first, whoever runs the session records it.
  void record_run(std::size_t d, std::int64_t begin) const {
    const DeviceName& first = program_->first;
    const std::string device =
        DeviceName{first.backend, first.plugin, first.ordinal + static_cast<int>(d)}.to_string();
    timeline::record_on(device, "run", program_->label, begin, timeline::now(),
                        timeline::details({{"device", device}}));
  }

  // Every device must see the programs of several devices in one order, or those that meet in a collective
  // wait for each other. XLA's CPU client has a thread per device for that: one program at a time.
  void launch_together(PJRT_LoadedExecutable_Execute_Args& args) {
    const std::lock_guard lock(program_->client->launching());
    launch(args, program_->client->platform() == "cpu" ? After::check
                 : timeline::is_on()                   ? After::settle
                                                       : After::nothing);
  }

  std::vector<std::vector<BufferRef>> take_results(const RunArguments& arguments) {
    for (const std::vector<PJRT_Buffer*>& list : results_)
      for (std::size_t o = 0; o < list.size(); ++o)
        if (list[o] == nullptr)
          refuse(ErrorKind::kUnsupported, fmt::format("the plugin gave no output {}", o));
    std::vector<std::vector<BufferRef>> results(program_->lists);
    for (std::size_t list = 0; list < program_->lists; ++list) {
      results[list].resize(program_->outputs.size());
      give_back(arguments, list, results[list]);
      for (std::size_t o = 0; o < program_->outputs.size(); ++o) {
        if (results[list][o]) continue;
        auto shards = std::make_shared<Shards>(*program_->client);
        fill(*shards, list, o);
        results[list][o] = std::make_shared<ArrayBuffer>(program_->client, program_->outputs[o],
                                                         program_->devices_of[list], std::move(shards));
      }
    }
    return results;
  }

  static ArrayBuffer& array(const RunArguments& arguments, std::size_t list, std::size_t i) {
    return static_cast<ArrayBuffer&>(*arguments.per_device[list][i]);
  }

  // The result that a donated argument's input aliases goes into the argument's Buffer. A Buffer that was
  // donated twice takes one result.
  void give_back(const RunArguments& arguments, std::size_t list, std::vector<BufferRef>& results) {
    for (const int donated : arguments.donated) {
      const auto i = static_cast<std::size_t>(donated);
      if (program_->aliases[i] < 0) continue;
      const auto o = static_cast<std::size_t>(program_->aliases[i]);
      ArrayBuffer& given = array(arguments, list, i);
      if (results[o] || (repeated_ && given.shards())) continue;
      ShardsRef shards = std::move(held_[list][i]);
      if (!shards || !is_sole(shards) || copy_[list][i] != 0)
        shards = std::make_shared<Shards>(*program_->client);
      fill(*shards, list, o);
      given.set(std::move(shards));
      results[o] = arguments.per_device[list][i];
    }
  }

  // Moves an output's buffers into the shards, whose own, donated, are let go.
  void fill(Shards& shards, std::size_t list, std::size_t o) {
    const bool many = program_->lists > 1;
    const std::size_t first = many ? list : 0, count = many ? 1 : program_->devices;
    shards.buffers.resize(count);
    for (std::size_t d = 0; d < count; ++d)
      shards.buffers[d] =
          DeviceBuffer(program_->client->api(), std::exchange(results_[first + d][o], nullptr));
    shards.set_placement(program_->results[list][o]);
  }

  void let_go() {
    for (std::vector<ShardsRef>& list : held_) std::fill(list.begin(), list.end(), nullptr);
    for (std::vector<PJRT_Buffer*>& list : results_)
      for (PJRT_Buffer*& buffer : list)
        if (buffer != nullptr)  // left by a failure
          DeviceBuffer(program_->client->api(), std::exchange(buffer, nullptr));
  }

  const std::shared_ptr<const Program> program_;
  std::vector<char> donated_;                     // by input
  std::vector<std::vector<ShardsRef>> held_;      // by list, then input
  std::vector<std::vector<std::size_t>> copy_;    // which of its buffers is the first device's
  std::vector<std::vector<PlacementRef>> known_;  // of the last argument, when equal to the program's
  bool repeated_ = false;                         // a donated Buffer is an argument twice
  std::vector<std::vector<PJRT_Buffer*>> arguments_, results_;  // by device
  std::vector<PJRT_Buffer**> argument_lists_, result_lists_;
  std::vector<std::int64_t> kept_;  // the inputs whose memory the program may not take
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
  for (std::size_t list = 0; list < program.lists; ++list) {
    program.devices_of.push_back(program.first);
    program.devices_of.back().ordinal += static_cast<int>(list);
    // A Variable's next value lies where its last one did: one object tells that without a comparison.
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.aliases[i] < 0) continue;
      PlacementRef& result = program.results[list].at(static_cast<std::size_t>(program.aliases[i]));
      if (*result == *program.arguments[list][i]) result = program.arguments[list][i];
    }
  }
  return std::make_shared<PjrtExecutable>(std::move(program));
}

}  // namespace systole::pjrt
