// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts the threads of the library. If the system has no thread left, the error says which thread it was and what to
// do.

#pragma once

#include "base/signals.hpp"

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep::detail {

/// `thread`: the thread in error texts, with the call that needs it. `remedy`: what a program can do without it.
struct ThreadPurpose {
  std::string_view thread;
  std::string_view remedy;
};

/// Throws Error(unavailable) with the reason of `error`, which the constructor of a thread has thrown.
[[noreturn]] void throw_no_thread(const ThreadPurpose& purpose, const std::system_error& error);

/// Starts a thread with outside_signals blocked. Throws Error(unavailable) if the system has no thread left.
template <class Thread = std::thread, class Function>
[[nodiscard]] Thread start_thread(const ThreadPurpose& purpose, Function&& function) {
  const SignalsBlocked no_signals;
  try {
    return Thread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    throw_no_thread(purpose, error);
  }
}

}  // namespace lockstep::detail
