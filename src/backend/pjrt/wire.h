#pragma once

// Just enough of the protocol-buffer wire format to say how a program is compiled.

#include <cstdint>
#include <string>
#include <string_view>

namespace systole::pjrt::wire {

class Writer {
 public:
  void varint(int field, std::uint64_t value) {
    number(static_cast<std::uint64_t>(field) << 3);
    number(value);
  }
  void bytes(int field, std::string_view value) {  // a string or a message
    number(static_cast<std::uint64_t>(field) << 3 | 2);
    number(value.size());
    text_ += value;
  }
  const std::string& text() const { return text_; }

 private:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

}  // namespace systole::pjrt::wire
