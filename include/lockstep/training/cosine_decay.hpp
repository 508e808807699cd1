// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>

namespace lockstep {

struct CosineDecayOptions {
  /// Learning rate after the warm-up.
  float initial = 0.1F;
  /// Number of steps, including the warm-up, after which the rate is `final_share * initial`; at least 1.
  std::int64_t steps = 1;
  /// Number of first steps in which the rate grows linearly to `initial`; less than `steps`. 0: no warm-up.
  std::int64_t warmup_steps = 0;
  /// The rate after the last step as a fraction of `initial`, in [0, 1].
  float final_share = 0.0F;
};

/// The cosine learning-rate schedule (Loshchilov and Hutter 2017, without restarts). Value type, immutable and
/// thread-safe.
class LOCKSTEP_API CosineDecay {
 public:
  /// Throws Error(invalid_argument) for options outside the ranges above.
  explicit CosineDecay(const CosineDecayOptions& options);

  /// The rate of step `step`, counted from 0; constant after the last step. Local.
  [[nodiscard]] float at(std::int64_t step) const;

 private:
  CosineDecayOptions options_;
};

}  // namespace lockstep
