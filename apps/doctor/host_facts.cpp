// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "doctor/host_facts.hpp"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program to declare

namespace doctor {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int number_or(const std::string& text, int otherwise) {
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void read_processors(const std::string& root, RankFacts& facts) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return;
  std::set<int> cores;
  std::set<int> all;
  const int count = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
  for (int cpu = 0; cpu < CPU_SETSIZE && cpu < std::max(count, 1); ++cpu) {
    const std::string siblings =
        first_line(fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, cpu));
    const int core = number_or(siblings, cpu);
    all.insert(core);
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) continue;
    facts.processors.push_back(cpu);
    cores.insert(core);
  }
  facts.cores.assign(cores.begin(), cores.end());
  facts.cores_of_host = static_cast<int>(all.size());
}

bool is_wanted(std::string_view name) {
  for (const char* prefix :
       {"LOCKSTEP_", "OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_", "MPICH_", "I_MPI_", "MPI_LOCAL", "HYDRA_", "UCX_",
        "FI_", "NCCL_", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PALS_", "FLUX_JOB", "JSM_NAMESPACE"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

void read_variables(RankFacts& facts) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !is_wanted(text.substr(0, equals))) continue;
    facts.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
}

void read_interfaces(RankFacts& facts) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text.data(), text.size());
    facts.interfaces.push_back(
        {each->ifa_name, text.data(), (each->ifa_flags & IFF_UP) != 0, (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
}

void read_shm(const std::string& root, RankFacts& facts) {
  const std::string folder = root + "/dev/shm";
  struct statvfs status{};
  if (statvfs(folder.c_str(), &status) != 0) return;
  facts.shm_bytes = static_cast<std::int64_t>(status.f_blocks) * static_cast<std::int64_t>(status.f_frsize);
  facts.shm_free = static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  facts.can_write_shm = file >= 0;
  if (file >= 0) close(file);
}

std::int64_t limit_of(decltype(RLIMIT_STACK) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

/// "advise" of "always within_size [advise] never".
std::string chosen_of(const std::string& line) {
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  return begin == std::string::npos || end == std::string::npos ? line : line.substr(begin + 1, end - begin - 1);
}

int cma_error() {
  char source = 1;
  char target = 0;
  const iovec local{&target, 1};
  const iovec remote{&source, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 ? 0 : errno;
}

void read_gpus(const std::string& root, Gpus& gpus) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/dev", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && name.find_first_not_of("0123456789", 6) == std::string::npos && name.size() > 6)
      ++gpus.devices;
  }
  const std::string line = first_line(root + "/proc/driver/nvidia/version");
  std::istringstream words(line.substr(std::min(line.size(), line.find("Kernel Module"))));
  std::string word;
  while (words >> word) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      gpus.driver = word;
    if (!gpus.driver.empty()) break;
  }
  gpus.hides_devices = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
}

/// The limit that one folder of cgroups states: "max 100000" or "50000 100000".
double limit_in(const std::string& folder) {
  std::istringstream words(first_line(folder + "/cpu.max"));
  double quota = -1;
  double period = 0;
  if (words >> quota >> period && period > 0) return quota / period;
  quota = number_or(first_line(folder + "/cpu.cfs_quota_us"), -1);
  period = number_or(first_line(folder + "/cpu.cfs_period_us"), 0);
  return quota > 0 && period > 0 ? quota / period : -1;
}

}  // namespace

double processor_limit_of_cgroup(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  double least = -1;
  for (std::string line; std::getline(file, line);) {  // "0::/a/b", or "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    std::string path = line.substr(second + 1);
    for (;;) {  // each ancestor may have a limit; inside a container the path may not exist
      const double limit = limit_in(mount + path);
      if (limit > 0 && (least < 0 || limit < least)) least = limit;
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

std::string hash_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  std::vector<char> block(std::size_t{1} << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    for (std::streamsize i = 0; i < file.gcount(); ++i)
      hash = (hash ^ static_cast<unsigned char>(block[static_cast<std::size_t>(i)])) * 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

RankFacts host_facts(const std::string& root) {
  RankFacts facts;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) facts.host = host.data();
  facts.machine = first_line(root + "/proc/sys/kernel/random/boot_id");
  read_variables(facts);
  read_processors(root, facts);
  facts.processor_limit = processor_limit_of_cgroup(root);
  read_interfaces(facts);
  read_shm(root, facts);
  facts.huge_pages = chosen_of(first_line(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  facts.limits = {limit_of(RLIMIT_MEMLOCK), limit_of(RLIMIT_STACK), limit_of(RLIMIT_CORE),
                  limit_of(RLIMIT_FSIZE),   limit_of(RLIMIT_AS),    limit_of(RLIMIT_NOFILE)};
  facts.ptrace_scope = number_or(first_line(root + "/proc/sys/kernel/yama/ptrace_scope"), -1);
  facts.cma_error = cma_error();
  read_gpus(root, facts.gpus);
  return facts;
}

}  // namespace doctor
