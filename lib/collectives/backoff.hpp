// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How to wait for somebody else without burning a core that he may need.

#pragma once

#include <chrono>
#include <thread>

namespace lockstep::detail {

/// Spins a little, then yields, then sleeps. One object per wait.
class Backoff {
 public:
  void pause() {
    ++pauses_;
    if (pauses_ <= spins) return;
    if (pauses_ <= spins + yields) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }

 private:
  static constexpr int spins = 50;
  static constexpr int yields = 20'000;  // tens of milliseconds
  int pauses_ = 0;
};

}  // namespace lockstep::detail
