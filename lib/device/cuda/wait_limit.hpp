// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The time limit of waits for GPUs. This module does not depend on communicators or settings; each communicator
// registers its timeout here instead.

#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::detail::cuda {

/// The longest limit of all existing claims; 300 s if there are none. Thread-safe.
[[nodiscard]] std::chrono::milliseconds wait_limit();

/// While it lives, waits for a GPU may take up to `limit`. Uses no GPU. Thread-safe.
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
