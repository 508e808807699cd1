// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// For which processors the kernels are compiled, and which of them runs here.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Highway's name of the target that was chosen for this processor: "SSE4", "AVX2", "AVX3", ... Thread-safety: any
/// thread.
[[nodiscard]] std::string_view kernel_target();

/// The names of all targets that are compiled in and run on this processor, the best first.
[[nodiscard]] std::vector<std::string_view> kernel_targets();

/// For tests: while it lives, what is chosen is chosen as if this processor had the named target, one of
/// kernel_targets(), and no better one. Functions chosen before stay what they are. Not while another thread chooses.
class ForcedKernelTarget {
 public:
  explicit ForcedKernelTarget(std::string_view name);
  ~ForcedKernelTarget();
  ForcedKernelTarget(const ForcedKernelTarget&) = delete;
  ForcedKernelTarget& operator=(const ForcedKernelTarget&) = delete;
};

}  // namespace lockstep::detail
