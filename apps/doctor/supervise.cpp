// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "doctor/supervise.hpp"

#include "base/printable.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace doctor {
namespace {

constexpr double end_seconds = 10;  // for MPI_Finalize

void write_line(int file, const std::string& line) {
  if (::write(file, line.data(), line.size()) < 0) _exit(1);  // the parent has ended
}

/// What the parent knows of its child.
struct Watch {
  int file;
  std::string unread;
  std::string stage = "start of the process";
  double seconds = end_seconds;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  Outcome outcome;

  [[nodiscard]] int remaining_ms() const {
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - begin;
    return static_cast<int>(std::max(0.0, seconds - past.count()) * 1000);
  }
  void take(const std::string& line) {
    begin = std::chrono::steady_clock::now();
    const std::size_t blank = line.find(' ', 2);
    if (line.starts_with("S ") && blank != std::string::npos) {
      seconds = std::strtod(line.c_str() + 2, nullptr);
      stage = line.substr(blank + 1);
    } else if (line.starts_with("R ")) {
      outcome.is_reported = true;
      outcome.code = std::atoi(line.c_str() + 2);
      seconds = end_seconds;
    }
  }
  /// Reads until the child closes the pipe; false after the deadline.
  bool follow() {
    for (;;) {
      pollfd poll{file, POLLIN, 0};
      const int ready = ::poll(&poll, 1, remaining_ms());
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return false;
      std::array<char, 512> block{};
      const ssize_t count = ::read(file, block.data(), block.size());
      if (count <= 0) return true;
      unread.append(block.data(), static_cast<std::size_t>(count));
      for (std::size_t end = 0; (end = unread.find('\n')) != std::string::npos; unread.erase(0, end + 1))
        take(unread.substr(0, end));
    }
  }
};

[[noreturn]] void run_child(int file, pid_t parent, const std::function<void(const Progress&)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) _exit(1);
  int code = 0;
  try {
    work(Progress(file));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-doctor: %s\n", lockstep::detail::printable(error.what()).c_str());
    code = 1;
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

void Progress::begin(const std::string& stage, double seconds) const {
  write_line(file_, fmt::format("S {} {}\n", seconds, stage));
}
void Progress::done(int code) const { write_line(file_, fmt::format("R {}\n", code)); }

Outcome supervise(const std::function<void(const Progress&)>& work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) {
    ::close(ends[0]);
    run_child(ends[1], parent, work);
  }
  ::close(ends[1]);
  Watch watch{ends[0]};
  const bool has_ended = watch.follow();
  ::close(ends[0]);
  if (!has_ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (watch.outcome.is_reported) return watch.outcome;
  watch.outcome.failure =
      !has_ended ? fmt::format("{} did not return within {:g} s", watch.stage, watch.seconds)
      : WIFSIGNALED(status)
          ? fmt::format("{} was ended by signal {} ({})", watch.stage, WTERMSIG(status), ::strsignal(WTERMSIG(status)))
          : fmt::format("{} ended the process with exit code {}", watch.stage, WEXITSTATUS(status));
  return watch.outcome;
}

}  // namespace doctor
