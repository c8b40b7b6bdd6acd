#pragma once

// Streams and events, for a program's own kernels. A Stream is a queue of work beside the device's default
// one; an Event is a moment in the work of a stream, to wait for or to take the time of.
//
//   Stream copies("cuda:0"), work("cuda:0");
//   a.copy_from_async(host, copies);
//   scale(Launch::over(n).on(work))(a, b, n);        // waits for the copy: both use `a`
//   const Event begin(work);
//   …
//   const Event end(work);
//   double ms = begin.elapsed_time(end);             // waits for both
//
// Streams only let work overlap that has nothing to do with each other: what uses the same array waits for
// what used it before, whatever stream that was on, and arrays may go out of scope while a stream uses them.
// So no call of wait() is needed for DeviceArrays, Tensors, HostArrays or a module's variables. It is for
// what the library does not see: memory behind addresses inside structs, a clock.
//
// A device that does everything in one queue (cpu, opencl, and those that run no kernels) has streams all the
// same: their work happens in the order of the calls, and an event is recorded when all work before it is
// done. Both are handles that copies share; threads may use them.

#include <memory>

#include "systole/base/export.h"
#include "systole/runtime/device_spec.h"

namespace systole {

class Event;

class SYSTOLE_API Stream {
 public:
  Stream() = default;                         // the default stream of whatever device it is used with
  explicit Stream(const DeviceSpec& device);  // a new one
  static Stream default_of(const DeviceSpec& device);

  bool is_default() const;
  const DeviceName& device() const;     // kInvalidArgument for Stream(), which is of no device in particular
  void synchronize() const;             // waits for all work that was put on it
  bool is_done() const;                 // whether there is none, without waiting
  void wait(const Event& event) const;  // work put on it from now on begins when the event has happened
  bool operator==(const Stream&) const = default;

  struct State;  // the library's own
  const State* state() const { return state_.get(); }

 private:
  friend class Event;
  const State& checked(const char* what) const;
  std::shared_ptr<const State> state_;
};

class SYSTOLE_API Event {
 public:
  Event() = default;  // not recorded
  explicit Event(const Stream& stream) { record(stream); }
  explicit Event(const DeviceSpec& device) { record(device); }

  // The moment when all work that was put on the stream so far is done. On a device's default stream that is
  // all work of the device but what is on other Streams: Tensors' work and copies too.
  void record(const Stream& stream);
  void record(const DeviceSpec& device);

  bool is_recorded() const { return state_ != nullptr; }
  bool is_done() const;                         // whether it has happened, without waiting
  void synchronize() const;                     // waits until it has
  double elapsed_time(const Event& end) const;  // milliseconds from here to `end`, by the device's clock

  struct State;  // the library's own
  const State* state() const { return state_.get(); }

 private:
  friend class Stream;
  const State& checked() const;
  std::shared_ptr<const State> state_;
};

}  // namespace systole
