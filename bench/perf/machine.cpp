// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/machine.hpp"

#include <lockstep/cluster/build_info.hpp>

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program to declare

namespace perf {
namespace {

/// The text after "key<blanks>:<blanks>" in a file of such lines; empty if there is none.
std::string value_of(const char* file_name, std::string_view key) {
  std::ifstream file(file_name);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':', key.size());
    if (colon == std::string::npos || line.find_first_not_of(" \t", key.size()) != colon) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

/// Open MPI's own setting, read through MPI's tool interface.
bool mpi_yields_when_idle() {
  int level = MPI_THREAD_SINGLE;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS) return false;
  int value = 0;
  int index = 0;
  MPI_T_cvar_handle handle{};
  int count = 0;
  if (MPI_T_cvar_get_index("mpi_yield_when_idle", &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    if (count != 1 || MPI_T_cvar_read(handle, &value) != MPI_SUCCESS) value = 0;
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value != 0;
}

/// "always [madvise] never" -> "madvise".
std::string chosen_hugepages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return line.substr(open + 1, close - open - 1);
}

std::string date_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

std::map<std::string, std::string> steering_variables() {
  constexpr std::array<std::string_view, 15> prefixes{
      "LOCKSTEP_",     "MPICH_",       "MPIR_CVAR_",   "I_MPI_",       "UCX_",
      "FI_",           "OMP_",         "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl",
      "OMPI_MCA_coll", "OMPI_MCA_osc", "CUDA_",        "NCCL_",        "OMPI_MCA_hwloc_base_binding"};
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    for (const std::string_view prefix : prefixes) {
      if (text.starts_with(prefix)) found.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return found;
}

}  // namespace

OwnComm::Take node_of_this_rank() {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  return {node};
}

Machine describe_machine(const lockstep::Environment& environment, const Job& job, const OwnComm& node) {
  Machine machine;
  machine.version = lockstep::build_info().version;
  machine.date = date_now();
  machine.cpu = value_of("/proc/cpuinfo", "model name");
  if (machine.cpu.empty()) machine.cpu = "unknown";
  machine.ranks = environment.size();
  machine.ranks_of_node = node.size();
  const int is_first = node.rank() == 0 ? 1 : 0;
  MPI_Allreduce(&is_first, &machine.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);

  cpu_set_t own;
  cpu_set_t together;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof own, &own);
  MPI_Allreduce(&own, &together, sizeof own, MPI_BYTE, MPI_BOR, node.get());
  machine.cores_of_node = CPU_COUNT(&together);
  const int cores = CPU_COUNT(&own);
  MPI_Allreduce(&cores, &machine.least_cores_of_rank, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&cores, &machine.most_cores_of_rank, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);

  std::ifstream("/proc/loadavg") >> machine.load;
  machine.mpi = environment.mpi_version();
  machine.thread_level = environment.thread_level();
  machine.mpi_yields = mpi_yields_when_idle();
  machine.kernel_target = environment.kernel_target();
  machine.page_bytes = sysconf(_SC_PAGESIZE);
  machine.transparent_hugepages = chosen_hugepages();
  machine.gpus = describe_gpus(job);
  machine.variables = steering_variables();
  return machine;
}

std::int64_t available_memory_bytes() {
  const std::string text = value_of("/proc/meminfo", "MemAvailable");
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10) * 1024;
}

}  // namespace perf
