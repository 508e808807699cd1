// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors that every rank must get.

#pragma once

#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

namespace lockstep::test {

/// Runs `body` on every rank. Expects the same error on all of them, and that the communicator works afterwards.
/// Returns the error.
inline std::string shared_error(const std::vector<int>& counts, FunctionRef<void(Communicator&)> body,
                                const CommunicatorOptions& options = minutes_to_fail()) {
  std::mutex mutex;
  std::vector<std::string> errors;
  on_ranks(
      counts,
      [&](Communicator& comm) {
        const std::string error = error_of([&] { body(comm); });
        comm.barrier(long_deadline());
        check_all_reduce(comm, ReduceOp::sum, long_deadline());
        const std::scoped_lock lock(mutex);
        errors.push_back(error);
      },
      options);
  for (const std::string& error : errors) EXPECT_EQ(error, errors.front());
  return errors.front();
}

/// The same with one replica per rank.
inline std::string shared_error(int ranks, FunctionRef<void(Communicator&)> body,
                                const CommunicatorOptions& options = minutes_to_fail()) {
  return shared_error(std::vector<int>(static_cast<std::size_t>(ranks), 1), body, options);
}

}  // namespace lockstep::test
