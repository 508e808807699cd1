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
    const int thread = store.step.thread;
    stores_[count_ % depth] = std::move(store);
    ++count_;
    see(thread, count_ - 1);
    if (is_sequentially_consistent) last_in_order_ = count_ - 1;
  }

  /// The number of stores, from the last one on, of which a load may return the value of any.
  [[nodiscard]] std::size_t candidates(int thread, const VectorClock& clock, bool is_sequentially_consistent,
                                       std::int64_t now) const {
    std::size_t first = count_ > depth ? count_ - depth : 0;
    first = std::max(first, seen(thread));
    if (is_sequentially_consistent) first = std::max(first, last_in_order_);
    std::size_t index = count_ - 1;
    while (index > first && !clock.has(at(index).step) && now - at(index).time < longest_delay) --index;
    return count_ - index;
  }
  /// The store that is `steps` before the last one, which `thread` now sees.
  const Store& look(int thread, std::size_t steps) {
    see(thread, count_ - 1 - steps);
    return at(count_ - 1 - steps);
  }

 private:
  [[nodiscard]] const Store& at(std::size_t index) const noexcept { return stores_[index % depth]; }
  [[nodiscard]] std::size_t seen(int thread) const noexcept {
    const auto index = static_cast<std::size_t>(thread);
    return index < seen_.size() ? seen_[index] : 0;
  }
  void see(int thread, std::size_t store) {
    const auto index = static_cast<std::size_t>(thread);
    if (index >= seen_.size()) seen_.resize(index + 1);
    seen_[index] = store;
  }

  std::array<Store, depth> stores_;
  std::size_t count_ = 0;          // stores up to now
  std::size_t last_in_order_ = 0;  // the last sequentially consistent store
  std::vector<std::size_t> seen_;  // by thread: the last store that it has seen
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
