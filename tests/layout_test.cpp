// The layout pass: convolutions with their channels last, and the transposes that this costs carried to where
// they cancel.

#include "pass_check.h"

namespace systole {
namespace {

using pass_check::Case;

void expect_layout(const std::vector<Case>& cases) {
  for (const Case& c : cases) pass_check::expect(c, {{"layout", passes::layout}, {"dce", passes::dce}});
}

TEST(Layout, AConvolutionOfChannelsFirstIsTransposedAndBack) {
  expect_layout({{"one convolution", "%x: f32[2,3,5,5], %k: f32[4,3,3,3]",
                  "%y = convolution(%x, %k) {layout=\"bf01_oi01->bf01\"}\nreturn %y",
                  "%t = transpose(%x) {permutation=[0,2,3,1]}\n"
                  "%c = convolution(%t, %k) {layout=\"b01f_oi01->b01f\"}\n"
                  "%y = transpose(%c) {permutation=[0,3,1,2]}\nreturn %y"},
                 {"channels are last already", "%x: f32[2,5,5,3], %k: f32[4,3,3,3]",
                  "%y = convolution(%x, %k) {layout=\"b01f_oi01->b01f\"}\nreturn %y", ""}});
}

TEST(Layout, TransposesSinkThroughWorkBetweenConvolutions) {
  expect_layout(
      {{"bias and relu", "%x: f32[2,3,5,5], %k: f32[4,3,3,3], %b: f32[4], %l: f32[4,2,1,1]",
        "%c = convolution(%x, %k) {layout=\"bf01_oi01->bf01\"}\n"
        "%bb = broadcast(%b) {shape=[2,4,3,3], axes=[1]}\n"
        "%s = add(%c, %bb)\n%z = constant() {value=f32[](0)}\n%zz = broadcast(%z) {shape=[2,4,3,3]}\n"
        "%r = max(%s, %zz)\n"
        "%y = convolution(%r, %l) {layout=\"bf01_io01->bf01\"}\nreturn %y",
        "%t = transpose(%x) {permutation=[0,2,3,1]}\n"
        "%c = convolution(%t, %k) {layout=\"b01f_oi01->b01f\"}\n"
        "%bb = broadcast(%b) {shape=[2,3,3,4], axes=[3]}\n"
        "%s = add(%c, %bb)\n%z = constant() {value=f32[](0)}\n%zz = broadcast(%z) {shape=[2,3,3,4]}\n"
        "%r = max(%s, %zz)\n"
        "%d = convolution(%r, %l) {layout=\"b01f_io01->b01f\"}\n"
        "%y = transpose(%d) {permutation=[0,3,1,2]}\nreturn %y",
        ""}});
}

TEST(Layout, ReductionsWindowsAndPaddingTakeTheNewOrder) {
  const std::string head = "%c = convolution(%x, %k) {layout=\"bf01_oi01->bf01\"}\n",
                    turned =
                        "%t = transpose(%x) {permutation=[0,2,3,1]}\n"
                        "%c = convolution(%t, %k) {layout=\"b01f_oi01->b01f\"}\n",
                    inputs = "%x: f32[2,3,5,5], %k: f32[4,3,2,2]";
  expect_layout({{"a mean over the image", inputs, head + "%y = reduce(%c) {kind=sum, axes=[2,3]}\nreturn %y",
                  turned + "%y = reduce(%c) {kind=sum, axes=[1,2]}\nreturn %y"},
                 {"a pool", inputs,
                  head + "%y = reduce_window(%c) {kind=max, window=[1,1,2,3], strides=[1,1,2,1]}\nreturn %y",
                  turned + "%w = reduce_window(%c) {kind=max, window=[1,2,3,1], strides=[1,2,1,1]}\n"
                           "%y = transpose(%w) {permutation=[0,3,1,2]}\nreturn %y"},
                 {"padding", inputs + ", %v: f32[]",
                  head + "%y = pad(%c, %v) {low=[0,0,1,2], high=[0,1,0,0], interior=[0,0,0,1]}\nreturn %y",
                  turned + "%w = pad(%c, %v) {low=[0,1,2,0], high=[0,0,0,1], interior=[0,0,1,0]}\n"
                           "%y = transpose(%w) {permutation=[0,3,1,2]}\nreturn %y"}});
}

}  // namespace
}  // namespace systole
