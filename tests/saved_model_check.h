#pragma once

// What the tests of saved models share.

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "scratch_folder.h"
#include "systole/systole.h"

namespace systole {

inline Tensor waves(Shape shape) {
  Literal value = Literal::uninitialized({DType::f32, std::move(shape)});
  const auto values = value.mutable_values<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000) / 1000;
  return Tensor(value);
}
inline Tensor words(Shape shape, int vocabulary) {
  Literal value = Literal::uninitialized({DType::i32, std::move(shape)});
  const auto values = value.mutable_values<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(i * 31 % static_cast<std::size_t>(vocabulary));
  return Tensor(value);
}

class SavedModelTest : public ScratchFolder {
 protected:
  std::filesystem::path file() const { return folder_ / "model.safetensors"; }

  // What `fn` gives, compiled as it is, and what the file gives.
  template <class F>
  void expect_same(const SavedModel& m, F fn, const std::vector<Tensor>& xs) {
    for (const Tensor& x : xs) {
      const Literal expected = compile(fn)(x).literal(), got = m(x).literal();
      EXPECT_TRUE(got.same_bits(expected)) << x.type().to_string() << "\n" << got << "\n" << expected;
    }
  }
};

// y = 2x₀ − x₁ + 0.5, by hand.
struct Tiny {
  nn::Linear fc{2, 1};
  Tensor forward(const Tensor& x) const { return fc(x); }
};
inline Tiny tiny() {
  Tiny net;
  net.fc.weight.assign(Tensor(Literal::of<float>({1, 2}, {2, -1})));
  net.fc.bias.assign(Tensor(Literal::of<float>({1}, {0.5})));
  return net;
}

}  // namespace systole
