// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>

namespace lockstep {

struct CosineDecayOptions {
  /// Learning rate after the warm-up.
  float initial = 0.1F;
  /// Steps over which the rate falls from `initial` to `final_share * initial`, warm-up included; at least 1.
  std::int64_t steps = 1;
  /// First steps, in which the rate grows linearly to `initial`; 0 for none, less than `steps`.
  std::int64_t warmup_steps = 0;
  /// What is left at the end, as a share of `initial`, in [0, 1].
  float final_share = 0.0F;
};

/// The cosine learning-rate schedule (Loshchilov and Hutter 2017, without restarts). A value: immutable, thread-safe.
class LOCKSTEP_API CosineDecay {
 public:
  /// Throws Error(invalid_argument) for options outside the ranges above.
  explicit CosineDecay(const CosineDecayOptions& options);

  /// The rate of step `step`, counted from 0; after the last step it stays. Local.
  [[nodiscard]] float at(std::int64_t step) const;

 private:
  CosineDecayOptions options_;
};

}  // namespace lockstep
