// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds data races between the threads of a run in virtual time, and lets loads of atomics return older values where
// the memory model allows it. README.md says how, and what it does not see.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::races {

/// Two accesses of the same bytes, at least one of them a write, of which neither comes before the other.
struct Race {
  struct Side {
    int group = 0;  ///< virtual_time::group() of the thread
    bool is_write = false;
  };
  std::string text;
  std::array<Side, 2> sides;  ///< in the order in which they were executed
};

struct Options {
  std::uint64_t seed = 0;  ///< of the choices between a new and an older value
  /// A load of an atomic returns, in one of so many cases, an older value that the memory model allows; 0: never.
  std::uint64_t stale_one_in = 0;
  /// Called before each access to an atomic outside of the own stack; may give other threads a turn. May be null.
  void (*at_atomic)() = nullptr;
  /// Called before each allocation by `operator new`; may throw std::bad_alloc. May be null.
  void (*at_allocation)() = nullptr;
  bool prints_stacks = false;  ///< the stack of the later access of each race
};

/// Whether the code of this program reports its accesses.
[[nodiscard]] bool is_available() noexcept;

/// The calling thread reads, or writes, these bytes: for code that does not report its accesses.
void read(const void* data, std::size_t bytes);
void wrote(const void* data, std::size_t bytes);

/// Earlier accesses to these bytes are forgotten, because they now belong to a new object: for allocators other than
/// `operator new`.
void is_new(const void* data, std::size_t bytes);
/// `views` consecutive mappings of the same memory, of `bytes` bytes each, begin at `data`.
void has_views(const void* data, std::size_t bytes, std::size_t views);
/// These bytes of a view, whole pages, are no longer those of the other views.
void separates(const void* data, std::size_t bytes);

/// From the construction to the destruction, accesses of the threads of the current run are checked. At most one
/// detection exists at a time; its thread must belong to a run that outlives it. Where detection is not available, it
/// finds nothing.
class Detection {
 public:
  explicit Detection(const Options& options);
  ~Detection();  // NOLINT(performance-trivially-destructible): it is where accesses are reported
  Detection(const Detection&) = delete;
  Detection& operator=(const Detection&) = delete;

  /// One for each pair of places in the code and of groups; at most 16.
  [[nodiscard]] std::vector<Race> races() const;
  /// Number of accesses to memory that were checked.
  [[nodiscard]] std::uint64_t accesses() const noexcept;
  /// Number of loads that have returned an older value.
  [[nodiscard]] std::uint64_t stale_loads() const noexcept;
};

}  // namespace lockstep::races
