#pragma once

// Training that goes on where a file is damaged.
//
//   auto bad = std::make_shared<data::BadSamples>();
//   data::Source pictures = data::without_bad(data::images("photos"), bad);
//   trainer.fit(pictures, …);
//   std::cout << bad->count() << " of " << pictures.size() << " could not be read\n";

#include <cstdint>
#include <memory>

#include "systole/base/export.h"
#include "systole/data/source.h"

namespace systole::data {

// Which samples could not be read. Threads may share one.
class SYSTOLE_API BadSamples {
 public:
  BadSamples();
  ~BadSamples();
  std::int64_t count() const;     // of different samples
  bool add(std::int64_t sample);  // whether it is a new one

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same samples, but in the place of one that cannot be read (damaged, too large, of a kind that this
// build does not read, gone) stands the next one that can, so that sizes, batches and orders stay as they
// are. Each is named in one warning. When a hundred in a row, or all, cannot be read, the error of the first
// is thrown.
SYSTOLE_API Source without_bad(const Source& source, std::shared_ptr<BadSamples> found = nullptr);

// Of a set made by without_bad(), the samples that no read so far has found bad; any other set as it is. A
// score in which the replacements count twice is measured again on these:
//
//   evaluate(skipping);
//   if (Source good = good_samples(skipping); good.size() < skipping.size()) evaluate(good);
SYSTOLE_API Source good_samples(const Source& source);

}  // namespace systole::data
