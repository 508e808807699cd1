// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes functions of the C library that this library replaces fail, for a test of what a program does when threads or
// the disk run out.

#pragma once

#include <cstddef>

namespace lockstep::virtual_time {

/// The calling thread, which belongs to a run, calls each function before the function of the C library. The functions
/// must not wait.
struct Shortages {
  int (*at_thread)() noexcept;  ///< before pthread_create: the error that it returns, or 0
  /// Before write and writev of `bytes` bytes to `descriptor`: the error, or 0. May lower `bytes`, but not to zero.
  int (*at_write)(int descriptor, std::size_t& bytes) noexcept;
};

/// Null: nothing fails. Set between runs.
extern constinit const Shortages* shortages;

}  // namespace lockstep::virtual_time
