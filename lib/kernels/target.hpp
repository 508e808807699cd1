// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The processor targets for which the kernels are compiled, and the target in use.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Highway's name of the target that was chosen for this processor: "SSE4", "AVX2", "AVX3", ... Thread-safety: any
/// thread.
[[nodiscard]] std::string_view kernel_target();

/// The names of all compiled targets that run on this processor, best first.
[[nodiscard]] std::vector<std::string_view> kernel_targets();

/// The names of all compiled targets, best first, whether or not they run on this processor.
[[nodiscard]] std::vector<std::string_view> compiled_kernel_targets();

/// For tests. While this object exists, kernels are chosen as if the best target of this processor were `name`, an
/// element of kernel_targets(). Functions that were chosen before do not change. Must not be used while another thread
/// chooses a kernel.
class ForcedKernelTarget {
 public:
  explicit ForcedKernelTarget(std::string_view name);
  ~ForcedKernelTarget();
  ForcedKernelTarget(const ForcedKernelTarget&) = delete;
  ForcedKernelTarget& operator=(const ForcedKernelTarget&) = delete;
};

}  // namespace lockstep::detail
