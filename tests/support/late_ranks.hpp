// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that make a call too late, however slow the machine is.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "support/function_ref.hpp"

#include <algorithm>
#include <cstddef>
#include <latch>
#include <utility>
#include <vector>

namespace lockstep::test {

/// One call of `ranks` ranks: those in `late` make it when it has failed on all others.
class LateRanks {
 public:
  LateRanks(int ranks, std::vector<int> late)
      : late_(std::move(late)), others_(ranks - static_cast<std::ptrdiff_t>(late_.size())) {}

  [[nodiscard]] bool contains(int rank) const { return std::find(late_.begin(), late_.end(), rank) != late_.end(); }

  /// Makes the call; throws what it throws.
  void call(const Communicator& comm, FunctionRef<void()> body) {
    if (contains(comm.rank())) {
      others_.wait();
      body();
    } else {
      const CountDown at_end{others_};
      body();
    }
  }

 private:
  struct CountDown {
    explicit CountDown(std::latch& latch) : latch_(latch) {}
    CountDown(const CountDown&) = delete;
    CountDown& operator=(const CountDown&) = delete;
    ~CountDown() { latch_.count_down(); }
    std::latch& latch_;
  };

  std::vector<int> late_;
  std::latch others_;
};

}  // namespace lockstep::test
