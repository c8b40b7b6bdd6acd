#include "machine.h"

#include <fmt/format.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/lasting.h"

// Saves what a function must keep on the stack that is left, and takes the other one.
asm(R"(
  .text
  .hidden systole_emulated_switch
  .globl systole_emulated_switch
  .type systole_emulated_switch, @function
systole_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size systole_emulated_switch, .-systole_emulated_switch
)");
extern "C" void systole_emulated_switch(void** left, void* taken);

namespace systole::emulated {

namespace {

constexpr std::size_t kStack = 256 * 1024;

enum class State { ready, at_barrier, at_exchange, done };

struct Fiber {
  char* stack = nullptr;
  void* place = nullptr;  // of its stack, where it goes on
  State state = State::ready;
};

struct Warp {
  unsigned lanes = 0, arrived = 0, turn = 0;
  unsigned shown[2][kWarp][kWords];  // of this turn and the last
};

class Group;
Group* running = nullptr;  // launches take turns
sigjmp_buf fault_place;
void* fault_address = nullptr;

class Group {
 public:
  Group(Machine& machine, const Launch& launch, const std::function<void()>& kernel)
      : machine_(machine), kernel_(kernel), order_(launch.seed), is_shuffled_(launch.seed != 0) {
    for (int i = 0; i < 3; ++i) {
      machine.threads[i] = launch.threads[i];
      machine.groups[i] = launch.groups[i];
    }
    const std::size_t count = std::size_t{launch.threads[0]} * launch.threads[1] * launch.threads[2];
    fibers_.resize(count);
    warps_.resize((count + kWarp - 1) / kWarp);
    for (std::size_t w = 0; w < warps_.size(); ++w)
      warps_[w].lanes = static_cast<unsigned>(std::min<std::size_t>(kWarp, count - w * kWarp));
    turns_.resize(count);
    machine.barrier = [] { running->wait(State::at_barrier); };
    machine.exchange = [](const unsigned* words, unsigned n) { return running->exchange(words, n); };
    while (stacks().size() < count) stacks().push_back(new_stack());
    for (std::size_t i = 0; i < count; ++i) fibers_[i].stack = stacks()[i];
  }

  // Empty, or why it does not end.
  std::string run() {
    for (Fiber& fiber : fibers_) begin(fiber);
    for (Warp& warp : warps_) warp.arrived = 0;
    std::iota(turns_.begin(), turns_.end(), std::size_t{0});
    for (;;) {
      if (is_shuffled_) order_.shuffle(turns_);
      bool has_moved = false;
      for (const std::size_t i : turns_) {
        if (fibers_[i].state != State::ready) continue;
        resume(i);
        has_moved = true;
      }
      const auto count = [&](State s) {
        return std::count_if(fibers_.begin(), fibers_.end(), [&](const Fiber& f) { return f.state == s; });
      };
      const auto all = static_cast<std::ptrdiff_t>(fibers_.size());
      const std::ptrdiff_t done = count(State::done), waiting = count(State::at_barrier);
      if (done == all) return {};
      if (done + waiting == all) {  // who has ended is not waited for
        for (Fiber& fiber : fibers_)
          if (fiber.state == State::at_barrier) fiber.state = State::ready;
      } else if (!has_moved) {
        return fmt::format(
            "threads of group {},{},{} wait for others that never come: {} at a barrier, {} at an operation "
            "of "
            "their warp, {} have ended",
            machine_.group[0], machine_.group[1], machine_.group[2], waiting, count(State::at_exchange),
            done);
      }
    }
  }

 private:
  static std::vector<char*>& stacks() {  // kept from launch to launch
    static auto& all = lasting<std::vector<char*>>();
    return all;
  }
  static char* new_stack() {
    void* const memory =
        ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char*>(memory);
  }

  static void begin(Fiber& fiber) {
    auto* top = reinterpret_cast<void**>(fiber.stack + kStack);
    *--top = nullptr;  // as if called, from nowhere: the stack is where a function expects it
    *--top = reinterpret_cast<void*>(&Group::enter);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    fiber.place = top;
    fiber.state = State::ready;
  }
  static void enter() {
    running->kernel_();
    running->wait(State::done);
  }

  void resume(std::size_t i) {
    current_ = i;
    const unsigned x = machine_.threads[0], y = machine_.threads[1];
    machine_.thread[0] = static_cast<unsigned>(i) % x;
    machine_.thread[1] = static_cast<unsigned>(i) / x % y;
    machine_.thread[2] = static_cast<unsigned>(i) / x / y;
    systole_emulated_switch(&home_, fibers_[i].place);
  }
  void wait(State state) {
    Fiber& self = fibers_[current_];
    self.state = state;
    systole_emulated_switch(&self.place, home_);
  }
  const unsigned* exchange(const unsigned* words, unsigned count) {
    const std::size_t first = current_ / kWarp * kWarp, lane = current_ - first;
    Warp& warp = warps_[current_ / kWarp];
    const unsigned turn = warp.turn % 2;
    std::copy_n(words, count, warp.shown[turn][lane]);
    if (++warp.arrived == warp.lanes) {
      warp.arrived = 0;
      ++warp.turn;
      for (std::size_t i = first; i < first + warp.lanes; ++i)
        if (i != current_) fibers_[i].state = State::ready;
    } else {
      wait(State::at_exchange);
    }
    return warp.shown[turn][0];
  }

  Machine& machine_;
  const std::function<void()>& kernel_;
  Order order_;
  const bool is_shuffled_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<std::size_t> turns_;
  std::size_t current_ = 0;
  void* home_ = nullptr;
};

// Faults of the kernel's threads come back to run().
class Faults {
 public:
  Faults() {
    static char stack[64 * 1024];
    const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
    ::sigaltstack(&other, &old_stack_);
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    action.sa_sigaction = [](int, siginfo_t* what, void*) {
      fault_address = what->si_addr;
      ::siglongjmp(fault_place, 1);
    };
    ::sigaction(SIGSEGV, &action, &old_segv_);
    ::sigaction(SIGBUS, &action, &old_bus_);
  }
  ~Faults() {
    ::sigaction(SIGSEGV, &old_segv_, nullptr);
    ::sigaction(SIGBUS, &old_bus_, nullptr);
    ::sigaltstack(&old_stack_, nullptr);
  }

 private:
  stack_t old_stack_{};
  struct sigaction old_segv_{}, old_bus_{};
};

}  // namespace

namespace {

// Empty, or why a group does not end.
std::string run_groups(Group& group, Machine& machine, const Launch& launch) {
  std::vector<char> dynamic(launch.dynamic_shared + 16);
  machine.dynamic_shared = dynamic.data() + (16 - reinterpret_cast<std::uintptr_t>(dynamic.data()) % 16) % 16;
  std::vector<std::size_t> groups(std::size_t{launch.groups[0]} * launch.groups[1] * launch.groups[2]);
  std::iota(groups.begin(), groups.end(), std::size_t{0});
  Order order(launch.seed);
  if (launch.seed != 0) order.shuffle(groups);
  for (const std::size_t g : groups) {
    const unsigned x = launch.groups[0], y = launch.groups[1];
    machine.group[0] = static_cast<unsigned>(g % x);
    machine.group[1] = static_cast<unsigned>(g / x % y);
    machine.group[2] = static_cast<unsigned>(g / x / y);
    const auto filling = static_cast<std::byte>(launch.seed != 0 ? order.below(256) : 0xCD);
    if (launch.fill_shared) launch.fill_shared(filling);
    std::fill(dynamic.begin(), dynamic.end(), static_cast<char>(filling));
    if (std::string why = group.run(); !why.empty()) return why;
  }
  return {};
}

// Who jumps back here has no variables that the jump could harm.
bool comes_back_from_fault(Group& group, Machine& machine, const Launch& launch, std::string& why) {
  if (sigsetjmp(fault_place, 1) != 0) return true;
  why = run_groups(group, machine, launch);
  return false;
}

}  // namespace

std::string run(Machine& machine, const Launch& launch, const std::function<void()>& kernel) {
  Group group(machine, launch, kernel);
  const Faults faults;
  running = &group;
  std::string why;
  if (comes_back_from_fault(group, machine, launch, why))
    why = fmt::format("thread {},{},{} of group {},{},{} touches {}, where no memory is", machine.thread[0],
                      machine.thread[1], machine.thread[2], machine.group[0], machine.group[1],
                      machine.group[2], fault_address);
  running = nullptr;
  return why;
}

}  // namespace systole::emulated
