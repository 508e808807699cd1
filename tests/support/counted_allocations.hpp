// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the allocations of a program through `new`, or makes some fail. Include it in one source of a program only: it
// replaces the operators.

#pragma once

#include "support/operator_new.hpp"

#include <atomic>
#include <new>

namespace {

std::atomic<long> allocations{0};
/// Number of allocations of this thread before the one that fails; negative: none fails.
thread_local long allocations_before_failure = -1;
/// How many fail, and how many succeed between two of them.
thread_local long failures = 1;
thread_local long allocations_between_failures = 0;

}  // namespace

void lockstep::test::at_allocation() {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (allocations_before_failure < 0) return;
  if (allocations_before_failure > 0) {
    --allocations_before_failure;
    return;
  }
  allocations_before_failure = allocations_between_failures;
  if (--failures == 0) {
    allocations_before_failure = -1;
    failures = 1;
  }
  throw std::bad_alloc();
}
