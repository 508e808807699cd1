// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The last values of each atomic, and what their loads order, by the memory model of C++20. What runs is sequentially
// consistent, since threads take turns; a load may still return an older value, as on a processor whose other cores
// have not seen the last store. After "C11Tester: a race detector for C/C++ atomics" (Luo and Demsky, ASPLOS 2021).

#pragma once

#include "races/vector_clock.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace lockstep::races {

/// A store, with the clock that a load with acquire order joins.
struct Store {
  std::uint64_t value = 0;
  Step step;
  std::int64_t time = 0;  ///< ns
  VectorClock released;
};

class Atomic {
 public:
  static constexpr std::size_t depth = 4;
  static constexpr std::int64_t longest_delay = 20'000;  ///< ns after which each thread sees a store

  /// `before`: the value before the first store that is known; each thread may have seen it.
  void begin(std::uint64_t before) {
    *this = {};
    add({before, {}, 0, {}}, false);
  }
  [[nodiscard]] bool is_new() const noexcept { return count_ == 0; }
  [[nodiscard]] const Store& last() const noexcept { return stores_[(count_ - 1) % depth]; }

  void add(Store store, bool is_sequentially_consistent) {
    const Step step = store.step;
    for (Seen& seen : seen_) seen[count_ % depth] = 0;  // they have seen a store that is no longer known
    stores_[count_ % depth] = std::move(store);
    ++count_;
    if (step.number > 0) see(step, count_ - 1);
    if (is_sequentially_consistent) last_in_order_ = count_ - 1;
  }

  /// The number of stores, from the last one on, of which a load may return the value of any. `clock` is that of the
  /// loading thread; `ordered`, what comes before the load in the order of sequentially consistent operations.
  [[nodiscard]] std::size_t candidates(const VectorClock& clock, const VectorClock& ordered,
                                       bool is_sequentially_consistent, std::int64_t now) const {
    std::size_t first = count_ > depth ? count_ - depth : 0;
    if (is_sequentially_consistent) first = std::max(first, last_in_order_);
    std::size_t index = count_ - 1;
    while (index > first && !comes_before(at(index).step, clock, ordered) && now - at(index).time < longest_delay)
      --index;
    // not older than what a thread has seen before the load
    for (std::size_t thread = 0; thread < seen_.size() && index + 1 < count_; ++thread) {
      for (std::size_t seen = count_ - 1; seen > index; --seen) {
        const std::uint32_t number = seen_[thread][seen % depth];
        if (number != 0 && clock.has({static_cast<int>(thread), number})) index = seen;
      }
    }
    return count_ - index;
  }
  /// The store that is `back` before the last one, which the thread of `step` sees in this step.
  const Store& look(Step step, std::size_t back, bool is_sequentially_consistent) {
    const std::size_t index = count_ - 1 - back;
    see(step, index);
    if (is_sequentially_consistent) last_in_order_ = std::max(last_in_order_, index);
    return at(index);
  }

 private:
  [[nodiscard]] const Store& at(std::size_t index) const noexcept { return stores_[index % depth]; }
  [[nodiscard]] static bool comes_before(Step step, const VectorClock& clock, const VectorClock& ordered) noexcept {
    return clock.has(step) || ordered.has(step);
  }
  void see(Step step, std::size_t store) {
    const auto thread = static_cast<std::size_t>(step.thread);
    if (thread >= seen_.size()) seen_.resize(thread + 1);
    std::uint32_t& first = seen_[thread][store % depth];
    if (first == 0) first = step.number;
  }

  std::array<Store, depth> stores_;
  std::size_t count_ = 0;          // stores up to now
  std::size_t last_in_order_ = 0;  // the last sequentially consistent store, or a later one that such a load has seen
  /// By store, as stores_: the first step in which a thread has seen it; 0: it has not.
  using Seen = std::array<std::uint32_t, depth>;
  std::vector<Seen> seen_;  // by thread
};

/// By address.
class Atomics {
 public:
  [[nodiscard]] Atomic& at(std::uintptr_t address) { return atomics_[address]; }
  void forget(std::uintptr_t address, std::size_t bytes) {
    atomics_.erase(atomics_.lower_bound(address), atomics_.lower_bound(address + bytes));
  }
  void clear() noexcept { atomics_.clear(); }

 private:
  std::map<std::uintptr_t, Atomic> atomics_;
};

}  // namespace lockstep::races
