#pragma once

// Kernels that the emulated compiler made, loaded into this process and run there.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../fake_driver.h"
#include "machine.h"

namespace systole::emulated {

class Code final : public cuda::FakeCode {
 public:
  explicit Code(std::string_view file);  // an ELF file
  ~Code() override;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  cuda::FakeKernel* kernel(std::string_view symbol) override;
  const std::vector<Variable>& variables() const override { return variables_; }

  struct Description {
    std::string symbol, expression;  // of a template: the words that asked for it
    std::vector<std::size_t> sizes;  // of the parameters
    unsigned most_threads;
  };
  std::vector<Description> descriptions() const;

 private:
  class Kernel;

  void* library_ = nullptr;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Variable> variables_;
  std::byte* shared_ = nullptr;  // the memory that a group shares
  std::size_t shared_bytes_ = 0;
};

}  // namespace systole::emulated
