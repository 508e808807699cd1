// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One call of the program: it is taken over, or handed on to MPI, and counted; errors of lockstep become errors of MPI.

#pragma once

#include "drop_in/calls.h"
#include "drop_in/communicators.hpp"
#include "drop_in/datatypes.hpp"

#include <atomic>
#include <cstdint>
#include <string_view>

namespace lockstep::drop_in {

enum class Call : std::uint8_t {
#define LOCKSTEP_ENUMERATOR(name, parameters, arguments) name,
  LOCKSTEP_EACH_OPERATION(LOCKSTEP_ENUMERATOR)
#undef LOCKSTEP_ENUMERATOR
      count
};

/// "MPI_Allreduce", ...
[[nodiscard]] std::string_view name_of(Call call) noexcept;

/// The functions of the MPI library.
extern lockstep_calls real;
/// Fills `taken` with functions that take over what they can.
void set_taken(lockstep_calls& taken);

/// What has been taken over of one collective.
struct Count {
  std::atomic<std::int64_t> taken{0};
  std::atomic<std::int64_t> handed_on{0};
  std::atomic<std::int64_t> bytes{0};  ///< bytes of the calls that have been taken over
};
[[nodiscard]] Count& count_of(Call call) noexcept;

/// Whether this thread is inside a call that has been taken over: calls that the MPI library makes then are its own.
extern thread_local bool is_inside;
struct Inside {
  Inside() noexcept { is_inside = true; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { is_inside = false; }
};

/// The report of LOCKSTEP_MPI=report, which measures calls instead of taking them over.
class Report {
 public:
  /// Whether calls are measured.
  [[nodiscard]] static bool is_on() noexcept;
  static void turn_on();
  /// Waits for all ranks of `comm`, and then calls `hand_on`. Measures both. `can_take`: whether lockstep would take
  /// the call over; `bytes`: of this rank's data.
  [[nodiscard]] static int measure(Call call, MPI_Comm comm, bool can_take, std::int64_t bytes, int (*hand_on)(void*),
                                   void* object);
  /// Writes the table of the whole job. Collective over MPI_COMM_WORLD.
  static void print();
};

/// Writes the error that is being handled, calls MPI's error handler for `comm`, and returns a code of MPI. If only
/// this rank can know the error, and the call is not complete, the other ranks of `group`, which may be null, get it,
/// too.
[[nodiscard]] int report_error(Call call, MPI_Comm comm, Group* group);

/// Gives the launcher time to pass on what this process has written: Hydra drops it if the job is aborted at once.
void let_launcher_read();

/// Serves one call of the program. `can_take` must be equal on all ranks of `comm`: it may depend only on what MPI
/// makes equal on all ranks. `take(group)` makes the call with lockstep; `hand_on()` makes it with MPI.
template <class Take, class HandOn>
int serve(Call call, MPI_Comm comm, bool can_take, std::int64_t bytes, const Take& take, const HandOn& hand_on) {
  if (is_inside) return hand_on();
  if (Report::is_on()) {
    return Report::measure(
        call, comm, can_take, bytes, [](void* object) { return (*static_cast<const HandOn*>(object))(); },
        const_cast<HandOn*>(&hand_on));
  }
  Count& count = count_of(call);
  Group* group = nullptr;
  try {
    const Inside inside;
    if (can_take) group = group_of(comm);
    if (group != nullptr) {
      take(*group);
      release_staging();
      group->misses_rank = false;
      count.taken.fetch_add(1, std::memory_order_relaxed);
      count.bytes.fetch_add(bytes, std::memory_order_relaxed);
      return MPI_SUCCESS;
    }
  } catch (...) {
    return report_error(call, comm, group);
  }
  count.handed_on.fetch_add(1, std::memory_order_relaxed);
  return hand_on();
}

}  // namespace lockstep::drop_in
