// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Stacks of threads, with names of functions from the symbol table of the program.

#pragma once

#include <pthread.h>

#include <string>

namespace lockstep::virtual_time::detail {

/// Loads what the printing of a stack needs, which takes locks.
void prepare_stacks();
/// Prints the stack of the calling thread to the standard error stream.
void print_this_stack() noexcept;
/// Prints the stack of a thread that runs, from a signal handler, if that thread does not block the signal.
void print_stack_of(pthread_t thread) noexcept;
/// The function of the code at `address`; "?" if it is not known.
[[nodiscard]] std::string function_at(const void* address);
/// Prints a line to the standard error stream.
[[gnu::format(printf, 1, 2)]] void print_line(const char* format, ...) noexcept;

}  // namespace lockstep::virtual_time::detail
