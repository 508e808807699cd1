// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which steps of threads come before which others, and which accesses are in a race. Its caller is the thread whose
// turn it is, so nothing here is locked.

#pragma once

#include "races/atomics.hpp"
#include "races/races.hpp"
#include "races/shadow.hpp"
#include "races/vector_clock.hpp"

#include "virtual_time/scheduler.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::races {

class Detector {
 public:
  void begin(const Options& options);

  // ---- what orders threads

  void has_created(int thread);
  void ends();
  void has_joined(int thread);
  void has_acquired(const void* object);
  void releases(const void* object);
  void fence(int order);

  // ---- memory

  void access(const void* address, std::size_t bytes, bool is_write, const void* place);
  /// The bytes become new memory, or memory of no object.
  void forget(const void* address, std::size_t bytes);
  /// Before an allocation by `operator new`.
  void at_allocation() const {
    if (options_.at_allocation != nullptr) options_.at_allocation();
  }
  /// See races::has_views and races::separates.
  void has_views(const void* address, std::size_t bytes, std::size_t views);
  void separates(const void* address, std::size_t bytes);

  // ---- atomics; orders are those of the compiler's built-in functions

  /// Before an access: gives other threads a turn.
  void at_atomic(const void* address);
  void note_atomic(const void* address, std::size_t bytes, bool is_write, const void* place);
  /// Returns the value of a load of `address`, whose present value is `value`; `must_be_last`: no older one.
  std::uint64_t load(const void* address, std::uint64_t value, int order, bool must_be_last = false);
  void store(const void* address, std::uint64_t former, std::uint64_t value, int order);
  /// A load of `former` and a store of `value` in one step.
  void exchange(const void* address, std::uint64_t former, std::uint64_t value, int order);

  // ---- results

  [[nodiscard]] const std::vector<Race>& races() const noexcept { return races_; }
  [[nodiscard]] std::uint64_t accesses() const noexcept { return accesses_; }
  [[nodiscard]] std::uint64_t stale_loads() const noexcept { return stale_loads_; }

 private:
  static constexpr std::size_t most_races = 16;

  struct Thread {
    VectorClock clock;
    VectorClock of_relaxed_loads;  // joined by a fence with acquire order
    VectorClock of_release_fence;  // what a relaxed store releases
    VectorClock ordered;           // what comes before, in the order of sequentially consistent operations
    int group = 0;
    std::uintptr_t stack_begin = 0;
    std::uintptr_t stack_end = 0;
  };

  [[nodiscard, gnu::always_inline]] Thread& self() {
    if (virtual_time::detail::self->number != self_number_) change_self();
    return *self_;
  }
  [[gnu::noinline]] void change_self();
  [[nodiscard]] Thread& thread(int number);
  [[nodiscard, gnu::always_inline]] Step own_step() {
    const VectorClock& clock = self().clock;
    return {self_number_, clock.of(self_number_)};
  }
  [[nodiscard, gnu::always_inline]] bool is_own_stack(std::uintptr_t address) {
    const Thread& here = self();
    if (here.stack_end == 0) find_stack();
    return address - here.stack_begin < here.stack_end - here.stack_begin;
  }
  [[gnu::noinline]] void find_stack();
  [[nodiscard]] bool is_of_a_stack(std::uintptr_t address) const noexcept;
  [[nodiscard]] std::uintptr_t common_address(const void* address) const noexcept;
  [[nodiscard]] Atomic& atomic(const void* address, std::uint64_t value);
  void acquire(const VectorClock& released, int order);
  [[nodiscard]] Store make_store(std::uint64_t value, int order);
  /// Calls `work(first, count)` for the common addresses of these bytes: by pages if there are views, since each page
  /// may be a separate one.
  template <class Work>
  void in_parts(const void* address, std::size_t bytes, const Work& work) const {
    const auto* data = static_cast<const std::byte*>(address);
    while (bytes > 0) {
      const std::size_t left_of_page = page_bytes - reinterpret_cast<std::uintptr_t>(data) % page_bytes;
      const std::size_t count = views_.empty() ? bytes : std::min(bytes, left_of_page);
      work(common_address(data), count);
      data += count;
      bytes -= count;
    }
  }
  [[gnu::always_inline]] void note(std::uintptr_t address, std::size_t bytes, const Access& access);
  [[gnu::noinline]] void has_race(std::uintptr_t address, std::size_t bytes, const Access& former, const Access& later);
  void report(const Access& former, const Access& later, std::size_t bytes);
  [[nodiscard]] std::uint64_t random(std::uint64_t count) noexcept;

  /// Mappings of the same memory, one behind another.
  struct Views {
    std::uintptr_t begin;
    std::size_t bytes;      // of one
    std::size_t all;        // of all
    std::uintptr_t common;  // the address that stands for the begin of each
  };
  static constexpr std::size_t page_bytes = 4096;

  Options options_;
  std::deque<Thread> threads_;
  Thread* self_ = nullptr;  // of the thread that called last
  int self_number_ = -1;
  VectorClock of_ended_threads_;  // whose stacks later threads may get
  VectorClock in_order_;          // of all sequentially consistent operations up to now
  std::map<std::uintptr_t, VectorClock> objects_;
  Atomics atomics_;
  Shadow shadow_;
  std::vector<Views> views_;
  std::set<std::uintptr_t> separate_pages_;
  struct Pair {
    const void* former_place;
    const void* later_place;
    std::array<int, 2> groups;
    friend bool operator==(const Pair&, const Pair&) = default;
  };
  std::vector<Pair> pairs_;  // of races
  std::vector<Race> races_;
  std::uint64_t accesses_ = 0;
  std::uint64_t stale_loads_ = 0;
  std::uint64_t random_ = 0;
};

/// The detector must not see what it does itself: its code shares functions of templates with the code that it checks.
class Inside {
 public:
  Inside() noexcept { is_inside = true; }
  ~Inside() { is_inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static constinit bool is_inside;
};

/// Not destroyed: threads report accesses until the process ends.
extern constinit Detector* detector;
extern constinit bool is_open;

/// The detector, if the calling thread belongs to a run whose accesses are checked, and is not in the detector itself.
[[nodiscard]] inline Detector* active_detector() noexcept {
  return is_open && virtual_time::detail::self != nullptr && !Inside::is_inside ? detector : nullptr;
}

/// Calls `work(detector)` if there is an active detector.
template <class Work>
void if_active(const Work& work) {
  if (Detector* const active = active_detector()) {
    const Inside inside;
    work(*active);
  }
}

}  // namespace lockstep::races
