// Summaries of samples. Every function throws Error if there are no samples or a sample is not finite, since the
// summary would be meaningless.
#pragma once

#include <cstddef>
#include <span>

namespace fk {

struct Summary {
  size_t count = 0;
  double mean = 0;
  double deviation = 0;  // of the population the samples come from (divides by count - 1); 0 for one sample
  double variation = 0;  // deviation / |mean|, the CV; infinite for samples that differ around a mean of 0
  double min = 0;
  double q1 = 0;
  double median = 0;
  double q3 = 0;
  double p95 = 0;
  double max = 0;
};

Summary summarize(std::span<const double> samples);

// By order statistics: the smallest sample with at least a share `q` of all samples at or below it; if that share is
// met exactly, the mean of it and the next one, so that quantile(0.5) is the usual median. 0 <= q <= 1.
double quantile(std::span<const double> samples, double q);

// Half of the width, in standard errors, of an interval around a mean whose deviation was estimated with so many degrees
// of freedom: Student's distribution. 0 < confidence < 1.
double student_width(double confidence, size_t degrees);

double median(std::span<const double> samples);

}  // namespace fk
