// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads: runs one function per rank, each with its communicator, and rethrows the first exception.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "support/function_ref.hpp"

#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

namespace lockstep::test {

/// Runs `body(communicator)` on one thread per entry of `counts`; rank p has counts[p] replicas.
inline void on_ranks(const std::vector<int>& counts, FunctionRef<void(Communicator&)> body,
                     CommunicatorOptions base = {}) {
  std::vector<CommunicatorOptions> options;
  for (const int count : counts) {
    options.push_back(base);
    options.back().local_replicas = count;
  }
  auto communicators = thread_communicators(options);
  std::vector<std::exception_ptr> errors(counts.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(communicators[rank]);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
  }
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Options with a short deadline. Calls that must not fail use `long_deadline` instead: beside sanitizers and other
/// tests they can take as long as that deadline.
inline CommunicatorOptions short_deadline(int fail_ms = 1000) {
  CommunicatorOptions options;
  options.warn_after = std::chrono::milliseconds(fail_ms / 2);
  options.fail_after = std::chrono::milliseconds(fail_ms);
  return options;
}

/// Options with a deadline that no call meets, however slow the machine is.
inline CommunicatorOptions minutes_to_fail() { return short_deadline(240'000); }

/// Options of a call that is to fail, on a communicator with a long deadline.
inline constexpr ReduceOptions one_second{.fail_after = std::chrono::seconds(1)};

/// Options of a call with a long deadline.
inline ReduceOptions long_deadline(std::optional<Order> order = {}) {
  return {.order = order, .name = {}, .fail_after = std::chrono::minutes(2)};
}

}  // namespace lockstep::test
