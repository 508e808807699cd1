// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes an allocation of a rank fail: one by `operator new`, in any of its threads, in code of the library.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace lockstep::simulation {

/// In a new job, no allocation has failed, and none will.
void forget_failed_allocations() noexcept;

/// The allocation that threads of the group make after `count` - 1 others throws std::bad_alloc, and none after it; 0:
/// none does.
void fail_allocation(int group, std::uint64_t count) noexcept;

/// When an allocation of the group has failed.
[[nodiscard]] std::optional<std::chrono::nanoseconds> failed_allocation(int group) noexcept;

/// Before each allocation of the calling thread.
void at_allocation();

/// To whom the code belongs that the calling thread runs while this exists; without one, it is the library's.
class CodeOf {
 public:
  enum Owner : bool { library, simulation };
  explicit CodeOf(Owner owner) noexcept;
  ~CodeOf();
  CodeOf(const CodeOf&) = delete;
  CodeOf& operator=(const CodeOf&) = delete;

 private:
  Owner former_;
};

}  // namespace lockstep::simulation
