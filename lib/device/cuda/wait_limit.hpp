// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The time limit of waits for GPUs. This module cannot read the settings of communicators, which are in a higher layer.
// So each communicator registers its timeout by a WaitClaim.

#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::detail::cuda {

/// The longest limit of all existing WaitClaims; 300 s if there is no WaitClaim. Thread-safe.
[[nodiscard]] std::chrono::milliseconds wait_limit();

/// As long as this object exists, waits for a GPU may take up to `limit`. Does not use a GPU. Thread-safe.
class WaitClaim {
 public:
  explicit WaitClaim(std::chrono::milliseconds limit);
  WaitClaim(const WaitClaim&) = delete;
  WaitClaim& operator=(const WaitClaim&) = delete;
  ~WaitClaim();

 private:
  std::chrono::milliseconds limit_;
  std::uint32_t fork_depth_;  // fork depth of the process that made this object
};

}  // namespace lockstep::detail::cuda
