// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>

namespace lockstep::test {

/// Stops this process after `delay`, for `time`: another process stops and wakes it.
inline void stop_this_process(std::chrono::milliseconds delay, std::chrono::milliseconds time) {
  const auto sleep = [](std::chrono::milliseconds pause) {
    const timespec until{pause.count() / 1000, pause.count() % 1000 * 1'000'000};
    nanosleep(&until, nullptr);
  };
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    sleep(delay);
    kill(parent, SIGSTOP);
    sleep(time);
    kill(parent, SIGCONT);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace lockstep::test
