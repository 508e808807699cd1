// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Exceptions as codes of the interface for C.

#pragma once

namespace lockstep::interop {

/// Must be called in an exception handler. Stores the current exception as the last error of this thread, and returns
/// its code.
[[nodiscard]] int store_current_exception() noexcept;

/// Calls `body`. Returns 0 or, if `body` throws, the code of the exception, which becomes the last error of this
/// thread.
template <class Body>
int code_of(const Body& body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    return store_current_exception();
  }
}

}  // namespace lockstep::interop
