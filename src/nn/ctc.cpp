// CTC: the forward algorithm in log space as one scan. A row of alpha holds, for each place of the target
// with blanks around its labels, the log-probability of all paths that are there. Places that no path has
// reached are -infinity; sums step around them, since the gradient of log(0) would be NaN.

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "nn/loss_common.h"
#include "systole/tensor/control.h"
#include "systole/tensor/transforms.h"

namespace systole {

namespace {

constexpr const char* kWhere = "ctc_loss";

void check_integers(const char* what, const Tensor& x, const Shape& wanted) {
  if (!is_integer(recording::checked(x, kWhere).type.dtype))
    throw Error(ErrorKind::kDType, kWhere, what, "integers", x.type().to_string());
  if (x.shape() != wanted)
    throw Error(ErrorKind::kShape, kWhere, what, wanted.to_string(), x.type().to_string());
}

void check(const Tensor& log_p, const Tensor& targets, const Tensor& input_lengths,
           const Tensor& target_lengths, const CtcOptions& options) {
  if (!is_float(recording::checked(log_p, kWhere).type.dtype))
    throw Error(ErrorKind::kDType, kWhere, "the log-probabilities", "floating-point numbers",
                log_p.type().to_string());
  if (log_p.rank() != 3 || log_p.size(0) < 1)
    throw Error(ErrorKind::kShape, kWhere, "the log-probabilities", "[length, batch, classes]",
                log_p.type().to_string());
  const Dim batch = log_p.shape()[1];
  if (recording::checked(targets, kWhere).type.shape.rank() != 2)
    throw Error(ErrorKind::kShape, kWhere, "the targets", "[batch, labels]", targets.type().to_string());
  check_integers("the targets", targets, {batch, targets.shape()[1]});
  check_integers("the input lengths", input_lengths, {batch});
  check_integers("the target lengths", target_lengths, {batch});
  if (options.blank < 0 || options.blank >= log_p.size(2))
    throw Error(ErrorKind::kInvalidArgument, kWhere, "blank",
                fmt::format("a class in [0, {})", log_p.size(2)), std::to_string(options.blank));
}

// log Σ exp over axis 0 of parts of one shape, -infinity where all of them are.
Tensor log_sum(const Tensor& parts) {
  const Tensor lost = recording::constant_like(parts, -HUGE_VAL);
  const Tensor largest = stop_gradient(amax(parts, 0));
  const Tensor offset = where(largest == lost, recording::constant_like(parts, 0), largest);
  const Tensor total = sum(exp(parts - offset), 0);
  const Tensor reached = total > 0;
  return where(reached, log(where(reached, total, 1)) + offset, lost);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options) {
  check(log_probabilities, targets, input_lengths, target_lengths, options);
  const std::int64_t length = log_probabilities.size(0), batch = log_probabilities.size(1);
  const std::int64_t labels = targets.size(1), places = 2 * labels + 1;
  const Tensor lost = recording::constant_like(log_probabilities, -HUGE_VAL);
  const Tensor zero = recording::constant_like(log_probabilities, 0);
  const Tensor ends = target_lengths.to(DType::i32), steps = input_lengths.to(DType::i32);

  // The target with blanks: [batch, places].
  const Tensor blanks = full({batch, labels, 1}, tensor(options.blank, DType::i32));
  const Tensor pairs = concat({blanks, targets.to(DType::i32).reshape({batch, labels, 1})}, -1);
  const Tensor text =
      concat({pairs.reshape({batch, 2 * labels}), full({batch, 1}, tensor(options.blank, DType::i32))}, -1);
  const Tensor emitted = take_along_axis(
      log_probabilities, broadcast_to(text.reshape({1, batch, places}), {length, batch, places}), 2);
  // A path may leave out the blank between two different labels.
  const Tensor skips = text != pad(text, {0, 2}, {0, -2}, tensor(options.blank, DType::i32)) &&
                       text != recording::scalar(options.blank, DType::i32, false);

  // It begins at the first blank or, where there is one, at the first label; of nothing to read, at the
  // blank.
  const Tensor place = arange(places).reshape({1, places});
  const Tensor begins = place == 0 || (place == 1 && (ends > 0).reshape({batch, 1}));
  const Tensor empty = where(broadcast_to(place == 0, {batch, places}), zero, lost);
  const Tensor first =
      where((steps > 0).reshape({batch, 1}), where(begins, emitted[0], lost), empty);  // [batch, places]

  Tensor alpha = first;
  if (length > 1) {
    const Tensor reads = arange(1, length).reshape({length - 1, 1}) < steps.reshape({1, batch});
    const auto step = [&](const Tensor& before, const std::pair<Tensor, Tensor>& now) {
      const Tensor stayed = before, moved = pad(before, {0, 1}, {0, -1}, lost);
      const Tensor skipped = where(skips, pad(before, {0, 2}, {0, -2}, lost), lost);
      const Tensor next = log_sum(stack({stayed, moved, skipped})) + now.first;
      const Tensor after = where(now.second.reshape({batch, 1}), next, before);
      return std::pair{after, std::tuple<>{}};
    };
    alpha = scan(step, first, std::pair{emitted[slice(1, length)], reads}).first;
  }

  // It ends at the last label or the blank after it.
  const Tensor last = (2 * ends).reshape({batch, 1});
  const Tensor ended = where(place == last || place == last - 1, alpha, lost);
  Tensor terms = -log_sum(transpose(ended));  // [batch]
  if (options.zero_infinity) terms = where(terms == -lost, zero, terms);
  if (options.reduction == Reduction::mean) terms = terms / max(ends, 1).to(terms.dtype());
  return reduced(terms, options.reduction);
}

}  // namespace systole
