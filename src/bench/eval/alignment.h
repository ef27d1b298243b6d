// Whether a candidate's outputs are those of the baseline, up to what the baseline's own outputs vary.
//
// Equal tokens are no measure: in bf16 two correct engines draw different tokens wherever the two most likely ones are
// nearly equal. So the candidate is given the baseline's tokens (forced decode), and at every position its logits are
// compared with the baseline's. How much they may differ is measured on the baseline itself: between a batch and the
// same sequence alone, and between two ways of rounding (rounding_noise.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fk {

// One number per position: of a sequence's tokens, or of an encoder's vectors.
struct PositionErrors {
  // RMS difference to the reference, relative to the spread of the reference's logits (or to the length of its vector).
  std::vector<float> errors;
  // How much less likely than the reference's own choice the token is that was chosen: difference of the reference's
  // logits, relative to their spread. 0 where both chose the same token.
  std::vector<float> margins;

  void add(const PositionErrors& other);
};

// From the differences of the baseline to itself.
struct AlignmentLimits {
  double position = 0;       // an error or margin above it is an outlier
  double median = 0;         // no more than this for the middle position
  double outlier_share = 0;  // of positions: what the baseline itself has (experts that change places)
};
// `batches`: between batch sizes; `rounding`: between two ways of rounding; `epsilon`: of the model's dtype.
AlignmentLimits limits_of_noise(const PositionErrors& batches, const PositionErrors& rounding, double epsilon);

struct Alignment {
  int64_t positions = 0;
  int64_t outliers = 0, allowed_outliers = 0;
  double agreement = 0;  // share of positions with the same choice
  double median_error = 0, worst_error = 0, worst_margin = 0;
  std::string reason;  // why it is not aligned; empty where it is

  bool aligned() const { return reason.empty(); }
};
// Without a position nothing is aligned. A NaN is an outlier.
Alignment judge_alignment(const PositionErrors& errors, const AlignmentLimits& limits);

}  // namespace fk
