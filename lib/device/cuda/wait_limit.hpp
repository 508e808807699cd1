// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How long this layer waits for a GPU. It knows no communicators and no settings: who has deadlines says them here.

#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::detail::cuda {

/// The longest of the claims that live; 300 s where there is none. Thread-safe.
[[nodiscard]] std::chrono::milliseconds wait_limit();

/// While it lives, a wait for a GPU may take as long as `limit`. Touches no GPU. Thread-safe.
class WaitClaim {
 public:
  explicit WaitClaim(std::chrono::milliseconds limit);
  WaitClaim(const WaitClaim&) = delete;
  WaitClaim& operator=(const WaitClaim&) = delete;
  ~WaitClaim();

 private:
  std::chrono::milliseconds limit_;
  std::uint32_t fork_depth_;  // of the process that made this
};

}  // namespace lockstep::detail::cuda
