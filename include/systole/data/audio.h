#pragma once

// Sound as pictures of its frequencies: what nets for speech are given. Plain functions of one recording.
//
//   Literal features = data::log_mel(samples, {.rate = 8000, .mels = 40});   // f32[frames,40]

#include <cstdint>

#include "systole/base/export.h"
#include "systole/base/literal.h"

namespace systole::data {

// Frames of `frame` samples, one every `hop`, times a periodic Hann window, as librosa and torchaudio have
// them. Centred: the recording is mirrored beyond both ends, so that frame i is about sample i·hop.
struct SpectrumOptions {
  std::int64_t frame = 256, hop = 128;
  bool centred = true;
};
SYSTOLE_API Literal spectrogram(const Literal& samples,
                                const SpectrumOptions& options = {});  // |·|²: f32[frames, frame/2+1]

struct MelOptions {
  double rate = 16000;
  std::int64_t frame = 256, hop = 128;
  bool centred = true;
  std::int64_t mels = 40;
  double lowest = 0, highest = 0;  // Hz; highest 0: half the rate
  double floor = 1e-10;            // added before the logarithm
};
// HTK's mel scale, triangles of height 1: f32[frames, mels], natural logarithm.
SYSTOLE_API Literal log_mel(const Literal& samples, const MelOptions& options = {});
SYSTOLE_API Literal mel_filters(const MelOptions& options);  // f32[frame/2+1, mels]
// The first cosine coefficients (DCT-II, orthonormal) of log_mel: f32[frames, coefficients].
SYSTOLE_API Literal mfcc(const Literal& samples, const MelOptions& options = {},
                         std::int64_t coefficients = 13);

}  // namespace systole::data
