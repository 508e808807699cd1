// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "events.hpp"

#include <lockstep/device/arena.hpp>
#include <lockstep/device/tensor.hpp>

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace faults {
namespace {

constexpr auto shared_memory_file = "/dev/shm/filler";
constexpr uid_t user_without_processes = 65533;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::uint64_t address_space_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

int lowest_free_descriptor() {
  const int file = dup(0);
  close(file);
  return file;
}

void die_by(int signal) {
  std::signal(signal, SIG_DFL);
  kill(getpid(), signal);
  pause();
}

/// The kernel ends this process, when it exceeds the limit of the control group that the driver has made.
[[noreturn]] void exceed_memory_group() {
  if (const char* const group = std::getenv("FAULTS_GROUP")) std::ofstream(std::string(group) + "/cgroup.procs") << 0;
  constexpr std::size_t block_bytes = std::size_t{1} << 20;
  std::vector<std::vector<char>> blocks;
  while (blocks.size() < 256) blocks.emplace_back(block_bytes, 'x');
  std::fputs("the control group has no limit of memory\n", stderr);
  _exit(99);
}

/// Limits on processes do not hold for the superuser. The calling thread becomes another user, who keeps all rights but
/// those to exceed the limit.
void leave_superuser() {
  if (geteuid() != 0) return;
  prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
  // the setresuid() of the C library would change all threads
  const auto user = static_cast<long>(user_without_processes);
  if (syscall(SYS_setresuid, user, user, user) != 0) return;  // in a namespace, whose superuser has the limit
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> rights{};
  syscall(SYS_capget, &header, rights.data());
  rights[0].permitted &= ~((1U << CAP_SYS_RESOURCE) | (1U << CAP_SYS_ADMIN));
  for (auto& half : rights) half.effective = half.permitted;
  if (syscall(SYS_capset, &header, rights.data()) != 0) std::perror("capset");
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // other ranks read the memory of this process
}

}  // namespace

struct Events::Taken {
  std::vector<lockstep::Tensor> tensors;
  std::map<int, rlimit> limits;
  std::string file;
};

Events::Events(const Settings& settings, const Report& report)
    : settings_(settings), report_(report), taken_(std::make_unique<Taken>()) {}
Events::~Events() { relieve(); }

bool Events::is_of_process() const {
  static const std::set<std::string> of_calls{"skip", "extra", "swap", "count", "dtype",    "op",     "root",
                                              "kind", "list",  "name", "none",  "replicas", "options"};
  return !of_calls.contains(settings_.event);
}

bool Events::comes_from_outside() const {
  static const std::set<std::string> inside{"throw", "caught", "exit0", "exit3", "late", "scope", "threads"};
  return is_of_process() && !inside.contains(settings_.event);
}

Then Events::happen() {
  if (!settings_.is_culprit() || !is_of_process()) return Then::go_on;
  report_.event();
  const std::string& event = settings_.event;
  if (settings_.moment == "creation" && (event == "address-space" || event == "descriptors")) return Then::go_on;
  if (event == "kill") die_by(SIGKILL);
  if (event == "term") die_by(SIGTERM);
  if (event == "segv") die_by(SIGSEGV);
  if (event == "abort") std::abort();
  if (event == "exit0") std::exit(0);
  if (event == "exit3") std::exit(3);
  if (event == "_exit0") _exit(0);
  if (event == "throw" || event == "caught") throw Boom();
  if (event == "scope") return Then::leave;
  if (event == "stop" || event == "stop-cont") kill(getpid(), SIGSTOP);  // the driver continues it
  if (event == "late") be_late();
  if (event == "cut" || event == "heal" || event == "slow") ask_driver();
  if (event == "memory-group") exceed_memory_group();
  if (event == "shm-full") fill(shared_memory_file);
  if (event == "disk-full") fill(settings_.folder / "checkpoints" / "filler");
  if (event == "staging") take_arena();
  if (event == "address-space") limit(RLIMIT_AS, address_space_bytes() + (std::uint64_t{4} << 20U));
  if (event == "descriptors") limit(RLIMIT_NOFILE, static_cast<std::uint64_t>(lowest_free_descriptor()));
  if (event == "threads") {
    leave_superuser();
    limit(RLIMIT_NPROC, 1);
  }
  return Then::go_on;
}

std::jthread Events::happen_in(std::chrono::microseconds delay) {
  if (!settings_.is_culprit()) return {};
  return std::jthread([this, delay] {
    std::this_thread::sleep_for(delay);
    happen();
  });
}

void Events::prepare_process() {
  if (settings_.moment != "creation" && settings_.event != "staging") return;
  // the rank is not known yet: limits and variables are those of the rank that the launcher names
  const char* name = std::getenv("OMPI_COMM_WORLD_RANK");
  if (name == nullptr) name = std::getenv("PMI_RANK");
  if (name == nullptr || std::atoi(name) != settings_.culprit) return;
  const std::string& event = settings_.event;
  if (event == "staging") limit(RLIMIT_AS, std::uint64_t{3} << 30U);
  if (event == "address-space") limit(RLIMIT_AS, std::uint64_t{1} << 30U);
  if (event == "descriptors") limit(RLIMIT_NOFILE, 40);
  if (event == "environment-timeout") setenv("LOCKSTEP_TIMEOUT", "soon", 1);
  if (event == "environment-order") setenv("LOCKSTEP_ORDER", "canonical", 1);
  if (event == "environment-radices") setenv("LOCKSTEP_RADICES", "f2", 1);
  if (event == "environment-memory") setenv("LOCKSTEP_SHARED_MEMORY", "0", 1);
}

void Events::relieve() {
  taken_->tensors.clear();
  for (const auto& [resource, before] : taken_->limits) setrlimit(static_cast<__rlimit_resource_t>(resource), &before);
  taken_->limits.clear();
  if (!taken_->file.empty()) unlink(std::exchange(taken_->file, {}).c_str());
}

/// The driver acts on links when it sees the file `event`. The culprit waits for that, except in the middle of a call.
void Events::ask_driver() const {
  if (settings_.moment == "large") return;
  const double begin = now();
  while (!std::filesystem::exists(settings_.folder / "acted") && now() < begin + 10) sleep_for(0.01);
}

/// Longer than the deadline, and until the other ranks have failed, if the event is before their last call.
void Events::be_late() const {
  sleep_for(settings_.fail_seconds + 1.5);
  if (settings_.moment == "shutdown") return;
  const auto has_failed = [this](int rank) {
    std::ifstream file(settings_.folder / ("rank." + std::to_string(rank)));
    for (std::string line; std::getline(file, line);) {
      if (line.find(R"("at":"error")") != std::string::npos) return true;
    }
    return rank == settings_.rank;
  };
  const double end = now() + 30;
  for (int rank = 0; rank < settings_.ranks && now() < end; rank += has_failed(rank) ? 1 : 0) sleep_for(0.01);
}

void Events::take_arena() {
  constexpr std::int64_t bytes = std::int64_t{1} << 20;
  for (int i = 0; i < 100'000; ++i) {
    lockstep::Tensor tensor =
        lockstep::Tensor::uninitialized(lockstep::DType::u8, lockstep::Shape{bytes}, lockstep::arena_memory_resource());
    if (!lockstep::is_in_arena(tensor.data(), bytes)) return;
    taken_->tensors.push_back(std::move(tensor));
  }
}

void Events::fill(const std::string& name) {
  const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  taken_->file = name;
  const std::vector<char> bytes(1 << 20);
  while (write(file, bytes.data(), bytes.size()) > 0) {}
  close(file);
}

void Events::limit(int resource, std::uint64_t value) {
  rlimit limits{};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &limits);
  taken_->limits.emplace(resource, limits);
  limits.rlim_cur = value;
  if (setrlimit(static_cast<__rlimit_resource_t>(resource), &limits) != 0) std::perror("setrlimit");
}

}  // namespace faults
