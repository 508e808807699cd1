// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the hosts give to the ranks: processors, memory, limits, network interfaces, GPUs.

#include "doctor/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace doctor {
namespace {

constexpr const char* processors = "processors";
constexpr const char* memory = "memory";
constexpr const char* network = "network";
constexpr const char* gpus = "GPUs";
constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
/// What MPI may need in /dev/shm for each rank of a node (Open MPI: 4 MiB and some queues).
constexpr std::int64_t shm_of_rank = 5 * mebibyte;

using Ranks = std::vector<const RankFacts*>;

std::map<int, Ranks> nodes_of(const JobFacts& job) {
  std::map<int, Ranks> nodes;
  for (const RankFacts& facts : job.ranks) nodes[facts.node].push_back(&facts);
  return nodes;
}

std::vector<int> numbers_of(const Ranks& ranks) {
  std::vector<int> numbers;
  for (const RankFacts* const each : ranks) numbers.push_back(each->rank);
  return numbers;
}

bool is_open_mpi(const RankFacts& facts) { return facts.mpi_version.starts_with("Open MPI"); }

std::string value_of(const RankFacts& facts, const char* name) {
  const auto found = facts.variables.find(name);
  return found == facts.variables.end() ? "" : found->second;
}

std::string cores_text(std::size_t count) { return fmt::format("{} core{}", count, count == 1 ? "" : "s"); }

/// Ranks of a node that share a core although they are bound to a part of the node's cores.
bool check_binding(const Ranks& ranks, const std::set<int>& of_node, std::vector<Finding>& findings) {
  std::map<std::set<int>, Ranks> groups;
  for (const RankFacts* const each : ranks) groups[{each->cores.begin(), each->cores.end()}].push_back(each);
  bool is_good = true;
  for (const auto& [cores, some] : groups) {
    const bool is_bound = cores.size() < of_node.size() ||
                          of_node.size() < static_cast<std::size_t>(std::max(0, some.front()->cores_of_host));
    if (!is_bound || cores.empty() || some.size() <= cores.size()) continue;
    is_good = false;
    findings.push_back({Severity::warning, processors,
                        fmt::format("{} ranks are bound to the same {} ({}) of {} and take turns on {}", some.size(),
                                    cores_text(cores.size()), fmt::join(cores, ","), some.front()->host,
                                    cores.size() == 1 ? "it" : "them"),
                        "bind each rank to cores of its own: mpirun --bind-to core, srun --cpu-bind=cores; or give the "
                        "job more cores (cpuset, taskset, --cpus-per-task)",
                        numbers_of(some)});
  }
  for (auto a = groups.begin(); a != groups.end(); ++a) {
    for (auto b = std::next(a); b != groups.end(); ++b) {
      std::vector<int> shared;
      std::set_intersection(a->first.begin(), a->first.end(), b->first.begin(), b->first.end(),
                            std::back_inserter(shared));
      if (shared.empty()) continue;
      is_good = false;
      Ranks both = a->second;
      both.insert(both.end(), b->second.begin(), b->second.end());
      std::vector<int> numbers = numbers_of(both);
      std::sort(numbers.begin(), numbers.end());
      findings.push_back({Severity::warning, processors,
                          fmt::format("bindings overlap on {} ({}) of {}", cores_text(shared.size()),
                                      fmt::join(shared, ","), a->second.front()->host),
                          "bind the ranks to disjoint cores: mpirun --bind-to core, srun --cpu-bind=cores, without a "
                          "taskset of your own",
                          numbers});
    }
  }
  return is_good;
}

void check_node_processors(const Ranks& ranks, std::vector<Finding>& findings) {
  const RankFacts& first = *ranks.front();
  std::set<int> cores;
  for (const RankFacts* const each : ranks) cores.insert(each->cores.begin(), each->cores.end());
  if (cores.empty()) {
    findings.push_back({Severity::note, processors, fmt::format("the processors of {} cannot be read", first.host),
                        "check that /proc and /sys are mounted", numbers_of(ranks)});
    return;
  }
  bool is_good = true;
  if (ranks.size() > cores.size()) {
    is_good = false;
    findings.push_back({Severity::warning, processors,
                        fmt::format("{} ranks on {} of {}: waiting ranks take the time of working ones", ranks.size(),
                                    cores_text(cores.size()), first.host),
                        "start fewer ranks on this node, or ask for more cores", numbers_of(ranks)});
  }
  is_good = check_binding(ranks, cores, findings) && is_good;
  const double limit = first.processor_limit;
  if (limit > 0 && limit + 0.01 < static_cast<double>(ranks.size())) {
    is_good = false;
    findings.push_back(
        {Severity::warning, processors,
         fmt::format("the cgroup permits the time of {:.2g} processors to {} ranks, which are stopped for "
                     "the rest of each period",
                     limit, ranks.size()),
         "raise the limit (docker --cpus, Kubernetes limits.cpu, systemd CPUQuota), or start fewer ranks",
         numbers_of(ranks)});
  }
  if (is_good)
    findings.push_back(
        {Severity::ok,
         processors,
         fmt::format("{} for {} rank{} per node", cores_text(cores.size()), ranks.size(), ranks.size() == 1 ? "" : "s"),
         {},
         numbers_of(ranks)});
}

void check_shm(const Ranks& ranks, std::vector<Finding>& findings) {
  const RankFacts& first = *ranks.front();
  const std::vector<int> numbers = numbers_of(ranks);
  const char* const remedy =
      "remove old files there (ls -l /dev/shm), or make it larger: mount -o remount,size=8g "
      "/dev/shm, docker --shm-size=8g, Kubernetes emptyDir with medium Memory";
  if (first.shm_bytes < 0 || !first.can_write_shm) {
    findings.push_back({ranks.size() > 1 ? Severity::error : Severity::warning, memory,
                        fmt::format("no file can be created in /dev/shm of {}: MPI cannot share memory", first.host),
                        remedy, numbers});
    return;
  }
  const auto need = static_cast<std::int64_t>(ranks.size()) * shm_of_rank;
  if (first.shm_free < need) {
    findings.push_back({ranks.size() > 1 ? Severity::error : Severity::warning, memory,
                        fmt::format("/dev/shm of {} has {} MiB free of {} MiB; MPI may need {} MiB for {} rank{}",
                                    first.host, first.shm_free / mebibyte, first.shm_bytes / mebibyte, need / mebibyte,
                                    ranks.size(), ranks.size() == 1 ? "" : "s"),
                        remedy, numbers});
    return;
  }
  findings.push_back(
      {Severity::ok, memory, fmt::format("/dev/shm has at least {} MiB free", need / mebibyte), {}, numbers});
}

void check_limits(const RankFacts& facts, std::vector<Finding>& findings) {
  const auto add = [&](Severity severity, std::string text, const char* remedy) {
    findings.push_back({severity, memory, std::move(text), remedy, {facts.rank}});
  };
  const Limits& limits = facts.limits;
  const auto least_files = static_cast<std::int64_t>(64) + 4 * facts.size;
  if (limits.nofile >= 0 && limits.nofile < least_files)
    add(Severity::error,
        fmt::format("ulimit -n {}: too few open files for MPI, which needs about {} for {} ranks", limits.nofile,
                    least_files, facts.size),
        "ulimit -n 65536 before the start, in limits.conf, or LimitNOFILE of the batch system's daemon");
  if (limits.memlock >= 0 && limits.memlock < 64 * 1024 * mebibyte)
    add(limits.memlock < mebibyte ? Severity::warning : Severity::note,
        fmt::format("ulimit -l {} KiB: InfiniBand and pinned memory for GPUs need locked memory",
                    limits.memlock / 1024),
        "ulimit -l unlimited; for batch jobs in the daemon that starts the ranks (LimitMEMLOCK=infinity). Not needed "
        "on "
        "one host without GPUs");
  if (limits.stack >= 0 && limits.stack < mebibyte)
    add(Severity::warning,
        fmt::format("ulimit -s {} KiB: threads of MPI and of the program may overflow their stacks",
                    limits.stack / 1024),
        "ulimit -s 8192");
  if (limits.file >= 0)
    add(Severity::note,
        fmt::format("ulimit -f {} KiB: checkpoints, and the arena, which is a memory file, are limited to this size",
                    limits.file / 1024),
        "ulimit -f unlimited");
  if (limits.space >= 0)
    add(Severity::note,
        fmt::format("ulimit -v {} KiB: the arena is smaller, and large tensors may be staged", limits.space / 1024),
        "ulimit -v unlimited");
  if (limits.core == 0)
    add(Severity::note, "ulimit -c 0: a crash leaves no core file",
        "ulimit -c unlimited, to find the line of a crash with gdb");
}

void check_arena(const RankFacts& facts, std::vector<Finding>& findings) {
  if (!facts.has_arena)
    findings.push_back(
        {Severity::warning,
         memory,
         fmt::format("no arena, so collectives copy through messages: {}", facts.arena),
         "permit memory files (memfd_create) in the container's seccomp profile, or raise the limit that the "
         "text names",
         {facts.rank}});
  if (facts.huge_pages == "never" || facts.huge_pages == "deny")
    findings.push_back(
        {Severity::note,
         memory,
         fmt::format("huge pages for shared memory are off ({}): large tensors in the arena cost more page faults",
                     facts.huge_pages),
         "as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
         {facts.rank}});
  const std::string copy = value_of(facts, "OMPI_MCA_btl_vader_single_copy_mechanism");
  const bool is_off = copy == "none" || value_of(facts, "OMPI_MCA_smsc").find("^cma") != std::string::npos;
  if (!is_open_mpi(facts) || is_off || facts.size == 1) return;
  if (facts.cma_error != 0 || facts.ptrace_scope > 0)
    findings.push_back(
        {Severity::warning,
         memory,
         facts.cma_error != 0
             ? fmt::format("Open MPI cannot read the memory of other ranks (process_vm_readv: {}): its messages "
                           "may fail with \"Read -1, expected N, errno = {}\"",
                           std::strerror(facts.cma_error), facts.cma_error)
             : fmt::format("kernel.yama.ptrace_scope={}: Open MPI cannot copy large messages directly between "
                           "ranks, or prints \"Read -1, expected N, errno = 1\"",
                           facts.ptrace_scope),
         "OMPI_MCA_btl_vader_single_copy_mechanism=none (Open MPI 5: OMPI_MCA_smsc=^cma); or sysctl "
         "kernel.yama.ptrace_scope=0, docker --cap-add=SYS_PTRACE",
         {facts.rank}});
}

/// Whether the interface is one of a container or virtual machine system, whose addresses are the same on every host.
bool is_unusual(std::string_view name) {
  for (const char* prefix : {"docker", "virbr", "br-", "cni", "flannel", "vmnet", "lxc", "podman", "cali"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

void check_interfaces(const RankFacts& facts, bool has_several_hosts, std::vector<Finding>& findings) {
  std::string usual;
  std::string unusual;
  for (const Interface& each : facts.interfaces) {
    if (!each.is_up || each.is_loopback || each.address.empty()) continue;
    std::string& names = is_unusual(each.name) ? unusual : usual;
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", each.name, each.address);
  }
  const std::string chosen =
      value_of(facts, "OMPI_MCA_btl_tcp_if_include") + value_of(facts, "OMPI_MCA_btl_tcp_if_exclude");
  if (has_several_hosts && usual.empty())
    findings.push_back({Severity::error,
                        network,
                        fmt::format("{} has no network interface but loopback{}", facts.host,
                                    unusual.empty() ? "" : " and " + unusual),
                        "bring an interface up that the other hosts can reach (ip addr), or start the container with "
                        "--network=host",
                        {facts.rank}});
  const std::string included = value_of(facts, "OMPI_MCA_btl_tcp_if_include");
  if (has_several_hosts && (included == "lo" || included.starts_with("127.")))
    findings.push_back(
        {Severity::error,
         network,
         fmt::format("OMPI_MCA_btl_tcp_if_include={}: other hosts cannot be reached by loopback", included),
         "name the interface or the subnet of the cluster, such as 10.0.0.0/16",
         {facts.rank}});
  if (is_open_mpi(facts) && !unusual.empty() && chosen.empty())
    findings.push_back(
        {has_several_hosts ? Severity::warning : Severity::note,
         network,
         fmt::format("Open MPI may use {}, where other hosts are not reachable", unusual),
         "OMPI_MCA_btl_tcp_if_include=SUBNET with the subnet of the cluster (and OMPI_MCA_oob_tcp_if_include)",
         {facts.rank}});
  if (!usual.empty() && !has_several_hosts)
    findings.push_back({Severity::ok, network, "one host: messages between ranks need no network", {}, {facts.rank}});
  if (!usual.empty() && has_several_hosts)
    findings.push_back({Severity::ok, network, fmt::format("interfaces: {}", usual), {}, {facts.rank}});
}

}  // namespace

void check_processors(const JobFacts& job, std::vector<Finding>& findings) {
  for (const auto& [node, ranks] : nodes_of(job)) check_node_processors(ranks, findings);
}

void check_memory(const JobFacts& job, std::vector<Finding>& findings) {
  for (const auto& [node, ranks] : nodes_of(job)) check_shm(ranks, findings);
  for (const RankFacts& facts : job.ranks) {
    check_limits(facts, findings);
    check_arena(facts, findings);
  }
}

void check_network(const JobFacts& job, std::vector<Finding>& findings) {
  std::set<std::string> hosts;
  for (const RankFacts& facts : job.ranks) hosts.insert(facts.host);
  for (const RankFacts& facts : job.ranks) check_interfaces(facts, hosts.size() > 1, findings);
}

void check_gpus(const JobFacts& job, std::vector<Finding>& findings) {
  for (const RankFacts& facts : job.ranks) {
    const Gpus& own = facts.gpus;
    if (own.status.empty()) {
      findings.push_back({Severity::note,
                          gpus,
                          fmt::format("not checked, since the job did not start; {} has {}", facts.host, own.devices),
                          "correct the errors above, and try again",
                          {facts.rank}});
      continue;
    }
    if (own.devices == 0 || own.usable >= own.devices || (own.hides_devices && own.usable > 0)) {
      findings.push_back({Severity::ok, gpus, own.status, {}, {facts.rank}});
    } else {
      findings.push_back({Severity::warning,
                          gpus,
                          fmt::format("{} has {} GPU{} (driver {}), but lockstep can use {}: {}", facts.host,
                                      own.devices, own.devices == 1 ? "" : "s",
                                      own.driver.empty() ? "not loaded" : own.driver, own.usable, own.status),
                          own.hides_devices ? "check CUDA_VISIBLE_DEVICES: an empty value hides all GPUs"
                                            : "install a driver for CUDA 12 or later, and a lockstep that is built "
                                              "with -Dcuda=enabled; in a container use --gpus all",
                          {facts.rank}});
    }
    if (own.usable > 1 && own.status.find("no NCCL") != std::string::npos)
      findings.push_back({Severity::warning,
                          gpus,
                          "without NCCL, collectives on GPUs go through host memory",
                          "install NCCL 2.27.3 or later, or set LOCKSTEP_NCCL to its file",
                          {facts.rank}});
  }
}

}  // namespace doctor
