// Launches in two and three dimensions: a picture is transposed by blocks of 16×16 threads, and a box of
// numbers smoothed by blocks of 8×4×4. Neither size is a multiple of its block, so threads at the edges have
// no work. Both results are compared with loops on the host.
//
//   launch_2d_3d [DEVICE]     the first GPU, else an OpenCL device, else the processor

#include <systole/systole.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "first_device.h"
#include "options.h"

namespace {

using namespace systole;

constexpr int kWidth = 1003, kHeight = 517;
constexpr int kX = 61, kY = 43, kZ = 29;

const std::string kSource = R"(
S_ENTRY transpose(S_GLOBAL const float* in, S_GLOBAL float* out, int width, int height) {
  const int x = S_THREAD, y = S_THREAD_Y;
  if (x < width && y < height) out[x * height + y] = in[y * width + x];
}

// The mean of a number and its six neighbours, where they are.
S_ENTRY smooth(S_GLOBAL const float* in, S_GLOBAL float* out, int nx, int ny, int nz) {
  const int x = S_THREAD, y = S_THREAD_Y, z = S_THREAD_Z;
  if (x >= nx || y >= ny || z >= nz) return;
  const int i = (z * ny + y) * nx + x;
  float sum = in[i];
  int count = 1;
  if (x > 0) { sum += in[i - 1]; ++count; }
  if (x < nx - 1) { sum += in[i + 1]; ++count; }
  if (y > 0) { sum += in[i - nx]; ++count; }
  if (y < ny - 1) { sum += in[i + nx]; ++count; }
  if (z > 0) { sum += in[i - nx * ny]; ++count; }
  if (z < nz - 1) { sum += in[i + nx * ny]; ++count; }
  out[i] = sum / count;
}
)";

int blocks(int count, int block) { return (count + block - 1) / block; }

float smoothed(const std::vector<float>& in, int x, int y, int z) {
  float sum = 0;
  int count = 0;
  const auto add = [&](int i, int j, int k) {
    if (i < 0 || i >= kX || j < 0 || j >= kY || k < 0 || k >= kZ) return;
    sum += in[(k * kY + j) * kX + i];
    ++count;
  };
  add(x, y, z);
  for (const int d : {-1, 1}) add(x + d, y, z);
  for (const int d : {-1, 1}) add(x, y + d, z);
  for (const int d : {-1, 1}) add(x, y, z + d);
  return sum / static_cast<float>(count);
}

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE]");
  const std::string device = argc > 1 ? argv[1] : first_device({"cuda", "opencl", "cpu"});
  const SourceModule module(device, {.portable = kSource});

  std::vector<float> picture(kWidth * kHeight);
  for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<float>(i % 997);
  DeviceArray<float> turned(device, {kWidth, kHeight});
  module.function<void(const float*, float*, int, int)>("transpose")(
      {.grid = {blocks(kWidth, 16), blocks(kHeight, 16)}, .block = {16, 16}})(
      DeviceArray<float>(device, picture, {kHeight, kWidth}), turned, kWidth, kHeight);
  int wrong = 0;
  const std::vector<float> got = turned.to_host();
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x) wrong += got[x * kHeight + y] != picture[y * kWidth + x];
  std::printf("%d×%d transposed on %s: %d wrong\n", kWidth, kHeight, module.device().to_string().c_str(),
              wrong);

  std::vector<float> box(kX * kY * kZ);
  for (std::size_t i = 0; i < box.size(); ++i) box[i] = static_cast<float>(i * 7919 % 1000);
  DeviceArray<float> soft(device, {kZ, kY, kX});
  module.function<void(const float*, float*, int, int, int)>("smooth")(
      {.grid = {blocks(kX, 8), blocks(kY, 4), blocks(kZ, 4)}, .block = {8, 4, 4}})(
      DeviceArray<float>(device, box, {kZ, kY, kX}), soft, kX, kY, kZ);
  const std::vector<float> mean = soft.to_host();
  float most = 0;
  for (int z = 0; z < kZ; ++z)
    for (int y = 0; y < kY; ++y)
      for (int x = 0; x < kX; ++x)
        most = std::max(most, std::abs(mean[(z * kY + y) * kX + x] - smoothed(box, x, y, z)));
  std::printf("%d×%d×%d smoothed: largest error %.1e\n", kX, kY, kZ, most);
  return wrong == 0 && most < 1e-2f ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "launch_2d_3d: " << error.what() << "\n";
  return 1;
}
