// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/process.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <map>
#include <string_view>
#include <tuple>

namespace lockstep::detail {
namespace {

/// The first bytes of a file of /proc, which contain all fields that are needed; empty if the file cannot be read.
struct ProcText {
  std::array<char, 1024> bytes{};
  std::size_t size = 0;

  explicit ProcText(const char* path) noexcept {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t read_bytes = read(file, bytes.data(), bytes.size());
    size = read_bytes > 0 ? static_cast<std::size_t>(read_bytes) : 0;
    close(file);
  }
  [[nodiscard]] std::string_view text() const noexcept { return {bytes.data(), size}; }
};

/// The path of `file` of process `number`.
std::array<char, 48> proc_path(std::int64_t number, std::string_view file) noexcept {
  std::array<char, 48> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/{}", number, file);
  return path;
}

/// The needed fields of /proc/PID/stat.
struct ProcStat {
  bool is_readable = false;
  char state = '?';
  std::uint64_t start_time = 0;
  int threads = 0;
  int wait_status = 0;

  explicit ProcStat(std::int64_t number) noexcept {
    const ProcText file(proc_path(number, "stat").data());
    std::string_view text = file.text();
    // the name of the program, in parentheses, may contain any characters
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return;
    text.remove_prefix(name_end + 2);
    state = text.front();
    is_readable = true;
    constexpr int state_field = 3;
    for (int field = state_field; !text.empty(); ++field) {
      const std::string_view word = text.substr(0, text.find_first_of(" \n"));
      if (field == 20) std::from_chars(word.data(), word.data() + word.size(), threads);
      if (field == 22) std::from_chars(word.data(), word.data() + word.size(), start_time);
      if (field == 52) std::from_chars(word.data(), word.data() + word.size(), wait_status);
      text.remove_prefix(std::min(word.size() + 1, text.size()));
    }
  }
  /// The first thread of a process may have ended before the others.
  [[nodiscard]] bool has_ended() const noexcept { return (state == 'Z' && threads <= 1) || state == 'X'; }
};

/// Whether the process with `id` has ended and its parent has waited for it. `now` is the current /proc entry of the
/// pid of `id`.
bool is_gone(const ProcStat& now, const ProcessId& id) noexcept {
  if (now.is_readable) return now.start_time != id.start_time;
  return kill(static_cast<pid_t>(id.number), 0) != 0 && errno == ESRCH;  // no /proc, or no free file descriptor
}

/// Identifies the host since its last start, and the pid namespace of this process; 0 if unknown.
std::uint64_t space_of_this_process() noexcept {
  const ProcText boot("/proc/sys/kernel/random/boot_id");
  struct stat space{};
  if (boot.size == 0 || stat("/proc/self/ns/pid", &space) != 0) return 0;
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  const auto add = [&hash](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3U; };
  for (const char digit : boot.text()) add(static_cast<unsigned char>(digit));
  for (int shift = 0; shift < 64; shift += 8) add((static_cast<std::uint64_t>(space.st_ino) >> shift) & 0xffU);
  return hash;
}

/// A file descriptor of process `number`; -1 if the kernel does not provide one, or if half of this process's limit of
/// file descriptors is already in use.
int open_process(std::int64_t number) noexcept {
  constexpr long pidfd_open_number = 434;  // the same on all architectures; headers may be older than the kernel
  const auto file = static_cast<int>(syscall(pidfd_open_number, static_cast<pid_t>(number), 0U));
  rlimit limit{};
  if (file >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(file) > limit.rlim_cur / 2) {
    close(file);
    return -1;
  }
  return file;
}

/// The result of PIDFD_GET_INFO of Linux 6.15 for a process whose parent has waited for it.
struct PidfdInfo {
  static constexpr std::uint64_t exit_bit = 1U << 3U;
  std::uint64_t mask = exit_bit;
  std::uint64_t cgroup = 0;
  std::array<std::uint32_t, 11> ids{};
  std::int32_t wait_status = 0;
};
static_assert(sizeof(PidfdInfo) == 64);

}  // namespace

ProcessId id_of_this_process() noexcept {
  thread_local ProcessId known;
  thread_local std::uint32_t depth = 0;
  const std::int64_t number = getpid();
  const bool is_of_parent = known.number != number || depth != fork_depth();
  if (is_of_parent || known.space == 0 || known.start_time == 0) {
    known = {space_of_this_process(), ProcStat(number).start_time, number};
    depth = fork_depth();
  }
  return known;
}

bool is_traced(std::int64_t number) noexcept {
  const ProcText file(proc_path(number, "status").data());
  constexpr std::string_view field = "TracerPid:\t";  // one of the first lines
  const std::string_view text = file.text();
  const std::size_t begin = text.find(field);
  return begin != std::string_view::npos && begin + field.size() < text.size() && text[begin + field.size()] != '0';
}

std::shared_ptr<const ProcessWatch> ProcessWatch::of(const ProcessId& id) {
  if (id.space == 0 || id.start_time == 0 || id.space != id_of_this_process().space) return nullptr;
  struct Watches {
    Mutex mutex;
    std::map<std::tuple<std::int64_t, std::uint64_t>, std::weak_ptr<const ProcessWatch>> by_process
        LOCKSTEP_GUARDED_BY(mutex);
  };
  static Watches& watches = *new Watches;  // never destroyed: communicators may be destroyed later
  const MutexLock lock(watches.mutex);
  auto& entry = watches.by_process[{id.number, id.start_time}];
  if (auto known = entry.lock()) return known;
  auto watch = std::make_shared<const ProcessWatch>(id);
  entry = watch;
  return watch;
}

// The pid may already belong to another process: is_gone detects this by the start time.
ProcessWatch::ProcessWatch(const ProcessId& id) noexcept
    : id_(id), descriptor_(open_process(id.number)), had_ended_(is_gone(ProcStat(id.number), id)) {}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool ProcessWatch::has_ended() const noexcept {
  if (had_ended_) return true;
  if (descriptor_ >= 0) {
    pollfd event{descriptor_, POLLIN, 0};
    const int ready = poll(&event, 1, 0);
    if ((event.revents & POLLNVAL) == 0) return ready > 0;  // else the program has closed the descriptor
  }
  const ProcStat now(id_.number);
  return is_gone(now, id_) || now.has_ended();
}

std::optional<int> ProcessWatch::wait_status() const noexcept {
  if (had_ended_) return std::nullopt;
  const ProcStat now(id_.number);
  if (now.is_readable && now.start_time == id_.start_time && now.has_ended()) return now.wait_status;
  constexpr unsigned long get_info = _IOWR(0xFF, 11, PidfdInfo);
  PidfdInfo info;
  if (descriptor_ >= 0 && ioctl(descriptor_, get_info, &info) == 0 && (info.mask & PidfdInfo::exit_bit) != 0)
    return info.wait_status;
  return std::nullopt;
}

std::string ProcessWatch::end_text() const {
  const std::optional<int> status = wait_status();
  if (status && WIFEXITED(*status)) {
    const int code = WEXITSTATUS(*status);
    return code == 0 ? "has exited" : fmt::format("has exited with code {}", code);
  }
  if (status && WIFSIGNALED(*status)) {
    const int signal = WTERMSIG(*status);
    const char* const name = sigdescr_np(signal);
    return fmt::format("has died of signal {} ({})", signal, name != nullptr ? name : "unknown");
  }
  return "has died";
}

}  // namespace lockstep::detail
