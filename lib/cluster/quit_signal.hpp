// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// SIGQUIT writes the flight record, and the program goes on.

#pragma once

#include <signal.h>

#include <thread>

namespace lockstep::detail {

/// Handles SIGQUIT on a thread of its own, from `start` to `stop` or the destructor, unless the program handles or
/// ignores the signal. The constructor blocks the signal in the calling thread, so that threads which are made later,
/// such as those of MPI, are never interrupted. Not thread-safe.
class QuitSignal {
 public:
  QuitSignal() noexcept;
  QuitSignal(const QuitSignal&) = delete;
  QuitSignal& operator=(const QuitSignal&) = delete;
  /// Restores the default action. In a child process after fork() it does nothing.
  ~QuitSignal();

  /// If the thread cannot be made, a warning is logged and the signal keeps its default action.
  void start() noexcept;
  /// Restores the signal's former action, and unblocks the signal in the calling thread and so in threads made by it
  /// later.
  void stop() noexcept;

 private:
  void stop_thread() noexcept;

  bool is_blocked_ = false;  // by the constructor
  unsigned fork_depth_;
  struct sigaction former_{};
  int wake_ = -1;  // an eventfd
  std::thread thread_;
};

}  // namespace lockstep::detail
