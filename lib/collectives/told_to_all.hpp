// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong on one rank around its collectives, and how the others hear of it at once.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <exception>
#include <new>

namespace lockstep::detail {

/// `call()`; what one rank throws reaches the others. What a collective throws they know already: it names the
/// operation, or the rank that has announced it.
template <class Call>
void told_to_all(Communicator& communicator, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const bool is_known = !error.operation().empty() || error.rank() >= 0;
    if (communicator.size() > 1 && !is_known) communicator.announce_failure(error.what());
    throw;
  } catch (const std::exception& error) {
    if (communicator.size() > 1) communicator.announce_failure(error.what());
    throw;
  }
}

/// `make()`, which speaks with no other rank. What it finds wrong all ranks find; but where memory is used up on one,
/// it tells the others.
template <class Make>
auto with_shortage_told(Communicator& communicator, const Make& make) {
  try {
    return make();
  } catch (const std::bad_alloc& error) {
    if (communicator.size() > 1) communicator.announce_failure(error.what());
    throw;
  }
}

}  // namespace lockstep::detail
