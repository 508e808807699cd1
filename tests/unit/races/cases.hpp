// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Code that reports its accesses, for the tests of what finds data races. Each function starts two threads.

#pragma once

#include <atomic>
#include <utility>

namespace lockstep::test {

/// One thread writes a value and then stores a flag; the other one loads the flag until it is set, and returns what it
/// then reads. `fences`: instead of `store` and `load`, the orders of fences before and after relaxed accesses.
int pass_value(std::memory_order store, std::memory_order load, bool fences);

/// As pass_value, but the flag is increased by a third thread, with relaxed order, before it is loaded.
int pass_value_through_relaxed_increment();

/// Each thread stores 1 to a variable of its own and then loads that of the other one. Returns both loads.
std::pair<int, int> store_and_load(std::memory_order store, std::memory_order load);

/// One thread loads a variable that another one stores with relaxed order, until it is 1, and then stores a flag with
/// release order. A third thread loads the flag with acquire order until it is set, and returns what it loads of the
/// variable.
int load_after_another_thread();

/// As store_and_load with relaxed order, with fences of order seq_cst between store and load in both threads.
std::pair<int, int> store_and_load_with_fences();

/// Two threads take turns in a section behind a spin lock of compare_exchange. Returns whether both were in it at once.
bool enter_twice();

/// A thread writes a value, and the other one reads it, each with a fence of order seq_cst and nothing else.
int pass_value_by_fences_alone();

/// A thread stores 1, 2, ... to a variable with relaxed order while the other one loads it. Returns whether a load gave
/// a smaller value than an earlier one.
bool goes_back();

/// Both threads change a number, under a mutex if `is_locked`.
int change_number(bool is_locked);

/// A thread allocates an object and frees it; then the other one does, and gets the same memory. Nothing else orders
/// the threads.
bool uses_memory_again();

/// The same with exceptions, whose memory the C++ library allocates.
bool uses_memory_of_exceptions_again();

/// A thread frees an object that the other one reads.
int free_while_read();

/// Both threads use a static variable of a function.
int use_static_variable();

/// Both threads write to adjacent bytes of a word.
int write_neighbours();

}  // namespace lockstep::test
