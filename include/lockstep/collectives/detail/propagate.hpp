// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The one path on which a failure of this rank reaches the other ranks.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>

namespace lockstep {
class Communicator;
}

namespace lockstep::detail {

/// Which ranks find a failure of a function by themselves.
enum class FoundBy : std::uint8_t {
  this_rank,  ///< possibly only on this rank: every failure is propagated
  all_ranks,  ///< all of them, since all make the same checks; only a lack of memory (std::bad_alloc) is propagated
};

/// Called in an exception handler: aborts the epoch of `communicator` on all ranks with the text of the exception,
/// unless the exception was propagated before, or all ranks find the failure by themselves. The other ranks throw
/// Error(mismatch) if the exception is one, else Error(unavailable). From then on the exception counts as propagated;
/// an Error is marked for this, and so are its copies. Local. Thread-safe.
LOCKSTEP_API void propagate_current_exception(const Communicator& communicator, FoundBy found_by);

/// Returns `local()`. An exception that it throws is rethrown here unchanged, and is propagated to the other ranks of
/// `target` only once, even if calls of this function are nested. `local` may contain collectives.
template <class Target, class Local>
decltype(auto) propagate(Target& target, const Local& local, FoundBy found_by = FoundBy::this_rank) {
  try {
    return local();
  } catch (...) {
    propagate_current_exception(target, found_by);
    throw;
  }
}

}  // namespace lockstep::detail
