// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Propagates a failure of this rank to the other ranks.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>
#include <new>

namespace lockstep {
class Communicator;
}

namespace lockstep::detail {

/// The ranks that find a failure of a function without a message from another rank.
enum class FoundBy : std::uint8_t {
  this_rank,  ///< possibly only this rank, so every failure is propagated
  all_ranks,  ///< all ranks, because all make the same checks; so only std::bad_alloc is propagated
};

/// Must be called in an exception handler. Aborts the current epoch of `communicator` on all ranks (see
/// Communicator::abort), with the text of the exception. Does nothing if the exception has already been propagated, or
/// if all ranks find the failure by themselves (see FoundBy). The other ranks throw Error(mismatch) if the exception is
/// an Error(mismatch), and Error(unavailable) for any other exception. After this call, the exception counts as
/// propagated. An Error stores this fact, so copies of the Error count as propagated, too. Local. Thread-safe.
LOCKSTEP_API void propagate_current_exception(const Communicator& communicator, FoundBy found_by);

/// Calls `local` and returns its result. If `local` throws an exception, the exception is propagated to the other ranks
/// of `target`, and then rethrown unchanged. Nested calls of this function propagate an exception only once. `local`
/// may contain collectives.
template <class Target, class Local>
decltype(auto) propagate(Target& target, const Local& local, FoundBy found_by = FoundBy::this_rank) {
  try {
    return local();
  } catch (...) {
    propagate_current_exception(target, found_by);
    throw;
  }
}

/// As `propagate`, but only for std::bad_alloc, of which the other ranks of `target` do not know. Any other exception
/// of `local` is found by all ranks, or `local` propagates it itself.
template <class Target, class Local>
decltype(auto) propagate_lack_of_memory(Target& target, const Local& local) {
  try {
    return local();
  } catch (const std::bad_alloc&) {
    propagate_current_exception(target, FoundBy::this_rank);
    throw;
  }
}

}  // namespace lockstep::detail
