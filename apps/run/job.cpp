// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "run/job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace run {
namespace {

int checked(int result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), call);
  return result;
}

/// Output of the launcher that passes through this process on its way to the terminal `target`.
struct Relay {
  int target = -1;
  int source = -1;  // end of the pipe that this process reads
  int inlet = -1;   // end of the pipe that the launcher writes
};

std::vector<Relay> make_relays(const Progress& progress) {
  std::vector<Relay> relays;
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (!progress.is_live() || isatty(fd) == 0) continue;
    std::array<int, 2> ends{};
    checked(pipe2(ends.data(), O_CLOEXEC), "pipe2");
    checked(fcntl(ends[0], F_SETFL, O_NONBLOCK), "fcntl");
    relays.push_back({fd, ends[0], ends[1]});
  }
  return relays;
}

/// The part of fork() in the child. Never returns.
[[noreturn]] void start(const Command& command, const std::vector<Relay>& relays, const sigset_t& mask, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // the parent died before prctl
  for (const Relay& relay : relays) dup2(relay.inlet, relay.target);
  for (const auto& [name, value] : command.variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execv(words[0], words.data());
  write_all(STDERR_FILENO, fmt::format("lockstep-run: cannot start {}: {}\n", command.words[0],
                                       std::generic_category().message(errno)));
  _exit(127);
}

/// Reads what the pipe has. Returns false at its end.
bool relay_output(const Relay& relay, Progress& progress) {
  std::array<char, 65536> part{};
  const ssize_t count = read(relay.source, part.data(), part.size());
  if (count > 0) progress.write_output(relay.target, {part.data(), static_cast<std::size_t>(count)});
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

/// The exit code, once the launcher has ended.
std::optional<int> ended(pid_t launcher) {
  int status = 0;
  if (waitpid(launcher, &status, WNOHANG) != launcher) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Stops this process as SIGTSTP does: not in a process group that no shell could continue.
void stop() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stops, nullptr);
  raise(SIGTSTP);
  sigprocmask(SIG_BLOCK, &stops, nullptr);
}

void forward(const signalfd_siginfo& info, pid_t launcher, Progress& progress) {
  const int number = static_cast<int>(info.ssi_signo);
  // the terminal sends its signals to all processes of the foreground group, the launcher among them; but when it is
  // closed, SIGHUP to the leader of the session alone
  if (info.ssi_code != SI_KERNEL || (number == SIGHUP && getsid(0) == getpid())) kill(launcher, number);
  if (number == SIGTSTP) {
    progress.erase();
    stop();
  }
}

class Loop {
 public:
  Loop(pid_t launcher, int signals, std::vector<Relay> relays, Progress& progress)
      : launcher_(launcher), signals_(signals), relays_(std::move(relays)), progress_(progress) {}

  int run() {
    for (;;) {
      wait();
      signalfd_siginfo info{};
      while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        if (info.ssi_signo != SIGCHLD) forward(info, launcher_, progress_);
      }
      std::erase_if(relays_, [&](const Relay& relay) { return !relay_output(relay, progress_); });
      progress_.update();
      if (const std::optional<int> code = ended(launcher_)) return finish(*code);
    }
  }

 private:
  /// Waits for a signal or output, but not past the next update.
  void wait() {
    std::vector<pollfd> sources{{signals_, POLLIN, 0}};
    for (const Relay& relay : relays_) sources.push_back({relay.source, POLLIN, 0});
    poll(sources.data(), sources.size(), 200);
  }

  /// Relays the rest of the output. A process that outlives the launcher may hold the pipe: its output is not awaited.
  int finish(int code) {
    for (const Relay& relay : relays_) {
      pollfd source{relay.source, POLLIN, 0};
      while (poll(&source, 1, 0) == 1 && relay_output(relay, progress_)) {}
    }
    progress_.erase();
    return code;
  }

  pid_t launcher_;
  int signals_;
  std::vector<Relay> relays_;
  Progress& progress_;
};

}  // namespace

int run_job(const Command& command, Progress& progress) {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD})
    sigaddset(&taken, number);
  sigset_t before;
  checked(sigprocmask(SIG_BLOCK, &taken, &before), "sigprocmask");
  auto* const pipe_action = signal(SIGPIPE, SIG_IGN);  // a closed stderr does not end the job
  signal(SIGCHLD, SIG_DFL);                            // if it was ignored, waitpid would not return the exit code
  const int signals = checked(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
  std::vector<Relay> relays = make_relays(progress);
  const pid_t parent = getpid();
  const pid_t launcher = checked(fork(), "fork");
  if (launcher == 0) {
    signal(SIGPIPE, pipe_action);
    start(command, relays, before, parent);
  }
  for (const Relay& relay : relays) close(relay.inlet);
  return Loop(launcher, signals, std::move(relays), progress).run();
}

}  // namespace run
