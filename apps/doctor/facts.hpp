// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What lockstep-doctor observes: values only, so that tests can state broken set-ups. -1 stands for an unknown number,
// and for a limit that does not exist.

#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace doctor {

struct Interface {
  std::string name;
  std::string address;  ///< IPv4
  bool is_up = false;
  bool is_loopback = false;
};

struct Limits {
  std::int64_t memlock = -1;   ///< bytes
  std::int64_t stack = -1;     ///< bytes
  std::int64_t core = -1;      ///< bytes
  std::int64_t file = -1;      ///< bytes of one file
  std::int64_t space = -1;     ///< bytes of address space
  std::int64_t nofile = 1024;  ///< open files
};

struct Gpus {
  std::string status;          ///< text of lockstep::gpu_status
  int usable = 0;              ///< GPUs that the library can use
  int devices = 0;             ///< files /dev/nvidia0, /dev/nvidia1, ...
  std::string driver;          ///< version of the kernel driver; empty: no driver
  bool hides_devices = false;  ///< whether CUDA_VISIBLE_DEVICES is set
};

/// The facts of one rank and its host.
struct RankFacts {
  int rank = 0;
  int size = 1;
  int node = 0;                   ///< lowest rank that shares memory with this rank, from MPI
  bool has_mpi = false;           ///< whether MPI_Init_thread has returned
  std::string mpi_version;        ///< first line of MPI_Get_library_version
  std::string mpi_device;         ///< of MPICH, from the same text, such as "ch4:ucx"
  std::string thread_level;       ///< "multiple", "serialized", "funneled" or "single"
  std::string environment_error;  ///< text with which the constructor of lockstep::Environment failed
  std::string library;            ///< path of the library, or of the program if it is linked statically
  std::string library_hash;       ///< of the file's bytes
  std::string host;
  std::string machine;                           ///< boot id of the kernel
  std::map<std::string, std::string> variables;  ///< of launchers, MPI, CUDA and lockstep
  std::vector<std::string> library_variables;    ///< LOCKSTEP_* names that exist
  std::vector<int> processors;                   ///< that this rank may run on
  std::vector<int> cores;  ///< of `processors`; the number of a core is that of its first processor
  int cores_of_host = -1;
  double processor_limit = -1;  ///< processors' worth of time that the cgroup permits
  std::vector<Interface> interfaces;
  std::int64_t shm_bytes = -1;  ///< size of /dev/shm; -1: it does not exist
  std::int64_t shm_free = -1;
  bool can_write_shm = false;
  bool has_arena = true;
  std::string arena;       ///< text of lockstep::arena_status
  std::string huge_pages;  ///< mode of transparent huge pages for shared memory: "never", "advise", ...
  Limits limits;
  int ptrace_scope = -1;
  int cma_error = 0;  ///< errno of process_vm_readv on this process itself; 0: it works
  Gpus gpus;
  double compute_ms = -1;     ///< mean time of a fixed computation, while all ranks make it
  double clock_offset_s = 0;  ///< wall clock of this rank minus that of rank 0
  double clock_error_s = -1;  ///< uncertainty of the offset; -1: not measured
};

/// The measured link of two ranks.
struct Link {
  int first = 0;
  int second = 0;
  bool is_between_hosts = false;
  double latency_us = -1;     ///< of 8 bytes, one way, median
  double bandwidth_gbs = -1;  ///< 1e9 bytes per second, of messages of 1 MiB, one way
  double all_reduce_us = -1;  ///< of 64 KiB, median
  std::string error;          ///< reason why a value is missing
};

/// Everything that rank 0 knows.
struct JobFacts {
  std::vector<RankFacts> ranks;
  int size = 1;              ///< ranks of the job; those that did not answer are not in `ranks`
  std::string start_error;   ///< reason why MPI did not start, or why the job did not answer
  std::vector<int> missing;  ///< ranks that did not answer
  std::vector<Link> links;
  std::string not_measured;  ///< reason why no link was measured
  std::string transport;     ///< by which data goes between nodes, and why; empty: unknown, or there is one node
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Interface, name, address, is_up, is_loopback)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Limits, memlock, stack, core, file, space, nofile)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Gpus, status, usable, devices, driver, hides_devices)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankFacts, rank, size, node, has_mpi, mpi_version, mpi_device,
                                                thread_level, environment_error, library, library_hash, host, machine,
                                                variables, library_variables, processors, cores, cores_of_host,
                                                processor_limit, interfaces, shm_bytes, shm_free, can_write_shm,
                                                has_arena, arena, huge_pages, limits, ptrace_scope, cma_error, gpus,
                                                compute_ms, clock_offset_s, clock_error_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Link, first, second, is_between_hosts, latency_us, bandwidth_gbs,
                                                all_reduce_us, error)

}  // namespace doctor
