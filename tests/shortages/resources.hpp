// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The resources that a rank takes from the system: counts them, and makes the taking of one fail. This program replaces
// `operator new` and the functions of the C library, for the threads of one rank of a run in virtual time.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::shortages {

enum class Kind : unsigned char {
  memory,       ///< operator new: std::bad_alloc
  thread,       ///< pthread_create: EAGAIN
  descriptor,   ///< open, memfd_create, eventfd, ...: EMFILE
  mapping,      ///< mmap: ENOMEM
  write,        ///< write, pwrite: ENOSPC
  short_write,  ///< write, pwrite: half of the bytes are written, which must not be an error
  sync,         ///< fsync, fdatasync: EIO
  rename,       ///< rename: ENOSPC
};
inline constexpr std::size_t kinds = 8;

[[nodiscard]] std::string_view to_string(Kind kind) noexcept;
[[nodiscard]] std::optional<Kind> kind_of(std::string_view name) noexcept;

/// The group of the threads of the rank that lacks resources (virtual_time::join_group).
inline constexpr int group_of_shortage = 1;

/// While this exists, calls of the threads of the group are counted, and call number `k` of `kind`, counted from 0,
/// fails, if `k` is given.
class Shortage {
 public:
  Shortage(Kind kind, std::optional<long> k) noexcept;
  ~Shortage();
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
};

/// Calls counted by the last Shortage, by kind.
[[nodiscard]] std::array<long, kinds> counted() noexcept;
/// Whether a call has failed in the last Shortage.
[[nodiscard]] bool has_failed() noexcept;

/// From now on, the stack of the call that fails is printed to the standard error stream.
void print_stacks_of_failures() noexcept;

/// What the process holds.
struct Held {
  long allocations = 0;
  long mappings = 0;
  long descriptors = 0;
};
[[nodiscard]] Held held();

}  // namespace lockstep::shortages
