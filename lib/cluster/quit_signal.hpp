// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// On SIGQUIT the process writes the flight record and continues.

#pragma once

#include <signal.h>

#include <thread>

namespace lockstep::detail {

/// Handles SIGQUIT on a separate thread, from `start` to `stop` or the destructor. Has no effect if the program handles
/// or ignores the signal. The constructor blocks the signal in the calling thread; threads that start later, such as
/// the threads of MPI, inherit the mask and are never interrupted. Not thread-safe.
class QuitSignal {
 public:
  QuitSignal() noexcept;
  QuitSignal(const QuitSignal&) = delete;
  QuitSignal& operator=(const QuitSignal&) = delete;
  /// Calls stop(). In a child process after fork(), does not change the handling of signals.
  ~QuitSignal();

  /// Starts the thread. If this fails, logs a warning, and the signal keeps its default action.
  void start() noexcept;
  /// Restores the former action of the signal. Unblocks the signal in the calling thread, and thus in threads that the
  /// calling thread starts later.
  void stop() noexcept;

 private:
  void stop_thread() noexcept;

  bool is_blocked_ = false;  // the constructor has blocked the signal
  unsigned fork_depth_;
  struct sigaction former_{};
  int wake_ = -1;  // an eventfd that wakes the thread
  std::thread thread_;
};

}  // namespace lockstep::detail
