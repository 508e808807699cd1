// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How the job starts: launcher, MPI, versions, and environment variables.

#include "doctor/checks.hpp"

#include <lockstep/cluster/environment_variables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace doctor {
namespace {

constexpr const char* start = "start";
constexpr const char* environment = "environment";

int number_in(const RankFacts& facts, const char* name) {
  const auto found = facts.variables.find(name);
  int value = -1;
  if (found != facts.variables.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

bool has_variable(const RankFacts& facts, const char* name) { return facts.variables.contains(name); }

/// Under mpirun, the SLURM_* variables describe mpirun's daemon.
bool is_under_mpirun(const RankFacts& facts) {
  return has_variable(facts, "OMPI_COMM_WORLD_RANK") || has_variable(facts, "MPI_LOCALNRANKS");
}

/// Compares the ranks of MPI with the variables of the launcher.
void check_launcher(const RankFacts& facts, std::vector<Finding>& findings) {
  struct Variable {
    const char* name;
    const char* meaning;
    int expected;
    bool is_slurm;
  };
  for (const Variable& each :
       {Variable{"OMPI_COMM_WORLD_SIZE", "size", facts.size, false}, Variable{"PMI_SIZE", "size", facts.size, false},
        Variable{"SLURM_STEP_NUM_TASKS", "size", facts.size, true},
        Variable{"OMPI_COMM_WORLD_RANK", "rank", facts.rank, false}, Variable{"PMI_RANK", "rank", facts.rank, false},
        Variable{"SLURM_PROCID", "rank", facts.rank, true}}) {
    const int value = number_in(facts, each.name);
    if (value < 0 || value == each.expected || (each.is_slurm && is_under_mpirun(facts))) continue;
    findings.push_back(
        {Severity::error,
         start,
         fmt::format("the launcher set {}={}, but the {} in MPI_COMM_WORLD is {}", each.name, value, each.meaning,
                     each.expected),
         fmt::format("start the program with the mpirun of {}, or with srun --mpi=TYPE of a type that it "
                     "supports (srun --mpi=list)",
                     facts.mpi_version),
         {facts.rank}});
  }
}

void check_mpi(const RankFacts& facts, std::vector<Finding>& findings) {
  if (!facts.environment_error.empty()) {
    findings.push_back({Severity::error,
                        start,
                        fmt::format("lockstep::Environment fails: {}", facts.environment_error),
                        "correct what the text names; every lockstep program fails with it",
                        {facts.rank}});
  }
  if (!facts.has_mpi || facts.thread_level == "multiple") return;
  findings.push_back(
      {Severity::warning,
       start,
       fmt::format("MPI provides thread level {} instead of multiple: only one thread of a rank may call "
                   "MPI, so asynchronous calls and several replicas per rank can fail",
                   facts.thread_level),
       "use an MPI library that is built with thread support (Open MPI: ompi_info | grep -i thread), and "
       "no variable that lowers the level (MPICH_ASYNC_PROGRESS, MPICH_MAX_THREAD_SAFETY)",
       {facts.rank}});
}

/// Reports that `value` differs between ranks; `what` names it.
template <class Value>
bool check_equal(const JobFacts& job, Value value, const char* group, Severity severity, const char* what,
                 const char* remedy, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<int>> ranks;
  for (const RankFacts& facts : job.ranks) ranks[value(facts)].push_back(facts.rank);
  if (ranks.size() < 2) return true;
  const auto most = std::max_element(ranks.begin(), ranks.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (const auto& [text, some] : ranks) {
    if (text == most->first) continue;
    findings.push_back({severity, group,
                        fmt::format("{}: {} here, but {} on rank {}", what, text.empty() ? "not set" : text,
                                    most->first.empty() ? "not set" : most->first, most->second.front()),
                        remedy, some});
  }
  return false;
}

void check_versions(const JobFacts& job, std::vector<Finding>& findings) {
  check_equal(
      job, [](const RankFacts& facts) { return facts.mpi_version; }, start, Severity::error,
      "the version of MPI differs", "load the same modules on all hosts, or give mpirun --prefix", findings);
  const bool is_one = check_equal(
      job, [](const RankFacts& facts) { return fmt::format("{} (hash {})", facts.library, facts.library_hash); }, start,
      Severity::error, "the ranks use different builds of lockstep",
      "install one lockstep in a shared directory, or the same on all hosts, and check LD_LIBRARY_PATH there",
      findings);
  if (job.ranks.empty() || !is_one) return;
  const std::string& library = job.ranks.front().library;
  findings.push_back(library.empty() ? Finding{Severity::note,
                                               start,
                                               "versions: not checked, since the job did not start",
                                               "correct the errors above, and try again",
                                               {}}
                                     : Finding{Severity::ok, start, fmt::format("library: {}", library), {}, {}});
}

void check_hosts(const JobFacts& job, std::vector<Finding>& findings) {
  std::map<std::string, std::map<std::string, std::vector<int>>> machines;
  std::map<int, std::vector<int>> nodes;
  for (const RankFacts& facts : job.ranks) {
    machines[facts.host][facts.machine].push_back(facts.rank);
    nodes[facts.node].push_back(facts.rank);
  }
  for (const auto& [host, ranks] : machines) {
    if (ranks.size() < 2) continue;
    findings.push_back({Severity::warning,
                        start,
                        fmt::format("{} machines have the host name {}", ranks.size(), host),
                        "give each machine a name of its own: launchers and log files take them for one host",
                        {}});
  }
  std::set<std::string> hosts;
  std::string text;
  for (const auto& [node, ranks] : nodes) {
    const auto facts = std::find_if(job.ranks.begin(), job.ranks.end(),
                                    [&](const RankFacts& each) { return each.rank == ranks.front(); });
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", facts->host, ranks.size());
    if (!hosts.insert(facts->host + facts->machine).second)
      findings.push_back(
          {Severity::warning, start,
           fmt::format("the ranks on {} share no memory with other ranks of the same host", facts->host),
           "start all ranks of a host in one container, or in containers with a common /dev/shm, IPC and "
           "process namespace",
           ranks});
  }
  const bool is_long = nodes.size() > 8;
  findings.push_back({Severity::ok,
                      start,
                      fmt::format("{} rank{} on {} node{}{}", job.size, job.size == 1 ? "" : "s", nodes.size(),
                                  nodes.size() == 1 ? "" : "s", is_long ? "" : ": " + text),
                      {},
                      {}});
}

/// Whether `version`, such as "MPICH Version:      4.0.2", is of MPICH before 4.2.
bool is_old_mpich(std::string_view version) {
  if (!version.starts_with("MPICH")) return false;
  version.remove_prefix(std::min(version.find_first_of("0123456789"), version.size()));
  int major = 0;
  int minor = 0;
  const char* const begin = version.data();
  const char* const end = begin + version.size();
  const auto [point, error] = std::from_chars(begin, end, major);
  if (error != std::errc{} || point == end || std::from_chars(point + 1, end, minor).ec != std::errc{}) return false;
  return major < 4 || (major == 4 && minor < 2);
}

void check_end(const JobFacts& job, std::vector<Finding>& findings) {
  if (job.ranks.empty()) return;
  const RankFacts& first = job.ranks.front();
  const bool is_on_one_node =
      std::all_of(job.ranks.begin(), job.ranks.end(), [&](const RankFacts& facts) { return facts.node == first.node; });
  if (is_on_one_node || !is_old_mpich(first.mpi_version) || first.mpi_device != "ch4:ucx") return;
  findings.push_back(
      {Severity::warning,
       start,
       "MPICH before 4.2 with UCX: over TCP, MPI_Finalize hangs on several nodes if a rank still waits "
       "in a call while another one is in MPI_Finalize",
       "use MPICH 4.2 or newer, or another MPI; with InfiniBand or another network with RDMA, ignore this",
       {}});
}

void check_clocks(const JobFacts& job, std::vector<Finding>& findings) {
  if (job.size == 1) return;
  bool is_measured = true;
  double largest = 0;
  for (const RankFacts& facts : job.ranks) {
    if (facts.rank == 0) continue;
    is_measured = is_measured && facts.clock_error_s >= 0;
    const double offset = std::abs(facts.clock_offset_s) - std::max(0.0, facts.clock_error_s);
    largest = std::max(largest, offset);
    if (facts.clock_error_s < 0 || offset < 0.1) continue;
    findings.push_back(
        {offset < 1 ? Severity::note : Severity::warning,
         start,
         fmt::format("the wall clock of {} differs from that of rank 0 by {:.1f} s: flight records, logs "
                     "and times of checkpoints of the hosts do not compare",
                     facts.host, facts.clock_offset_s),
         "synchronize the clocks of the hosts (chrony, ntp)",
         {facts.rank}});
  }
  if (!is_measured) {
    findings.push_back({Severity::note,
                        start,
                        "wall clocks: not compared, since not all ranks have answered",
                        "correct the errors above, and try again",
                        {}});
  } else if (largest < 0.1) {
    findings.push_back({Severity::ok, start, "wall clocks differ by less than 0.1 s", {}, {}});
  }
}

bool belongs_to_program(std::string_view name) {
  return std::any_of(lockstep::program_variable_prefixes.begin(), lockstep::program_variable_prefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

void check_names(const RankFacts& facts, std::vector<Finding>& findings) {
  for (const auto& [name, value] : facts.variables) {
    if (!name.starts_with("LOCKSTEP_") || belongs_to_program(name)) continue;
    if (facts.library_variables.empty() ||
        std::count(facts.library_variables.begin(), facts.library_variables.end(), name) > 0)
      continue;
    const std::string near = nearest_name(name, facts.library_variables);
    findings.push_back({Severity::warning,
                        environment,
                        fmt::format("{} is set, but lockstep has no such variable", name),
                        near.empty()
                            ? fmt::format("unset it; the variables are {}", fmt::join(facts.library_variables, ", "))
                            : fmt::format("did you mean {}?", near),
                        {facts.rank}});
  }
}

/// Variables that a launcher sets to another value on each rank.
bool is_of_one_rank(std::string_view name) {
  for (const char* part : {"RANK",
                           "PROCID",
                           "LOCALID",
                           "NODEID",
                           "TASK_PID",
                           "GTIDS",
                           "PMI_FD",
                           "PMI_ID",
                           "FILE",
                           "URI",
                           "CPU_BIND",
                           "TOPOLOGY_ADDR",
                           "LAUNCH_NODE",
                           "SLURMD_",
                           "PMIX_",
                           "VISIBLE_DEVICES",
                           "JOB_GPUS",
                           "OMPI_MCA_orte_",
                           "OMPI_MCA_ess",
                           "OMPI_MCA_routed",
                           "OMPI_MCA_initial_wdir",
                           "OMPI_MCA_pmix",
                           "OMPI_MCA_shmem",
                           "HYDRA",
                           "SLURM_PID"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t least = std::max<std::size_t>(3, name.size() / 5);
  for (const std::string& other : known) {
    std::vector<std::size_t> row(other.size() + 1);  // edit distances of the prefixes (Levenshtein)
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < name.size(); ++i) {
      std::size_t diagonal = row[0]++;
      for (std::size_t j = 0; j < other.size(); ++j) {
        const std::size_t changed = diagonal + (name[i] == other[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() > least || (row.back() == least && !nearest.empty())) continue;
    least = row.back();
    nearest = other;
  }
  return nearest;
}

void check_start(const JobFacts& job, std::vector<Finding>& findings) {
  if (!job.start_error.empty())
    findings.push_back(
        {Severity::error,
         start,
         job.start_error,
         "see the messages of MPI above; start with the mpirun of the MPI library that lockstep is linked "
         "with, and check that every host can start the program (mpirun hostname)",
         {}});
  if (!job.missing.empty())
    findings.push_back({Severity::error, start, "no answer before the deadline",
                        "look at these processes (are they stopped, or waiting for a file system?) and at the network "
                        "between their hosts and rank 0",
                        job.missing});
  for (const RankFacts& facts : job.ranks) {
    check_mpi(facts, findings);
    if (facts.has_mpi && facts.environment_error.find("MPI sees one rank") == std::string::npos)
      check_launcher(facts, findings);
  }
  if (!job.ranks.empty() && job.ranks.front().has_mpi)
    findings.push_back(
        {Severity::ok,
         start,
         fmt::format("MPI: {}, thread level {}", job.ranks.front().mpi_version, job.ranks.front().thread_level),
         {},
         {}});
  check_versions(job, findings);
  check_hosts(job, findings);
  check_end(job, findings);
  check_clocks(job, findings);
}

void check_variables(const JobFacts& job, std::vector<Finding>& findings) {
  std::set<std::string> names;
  for (const RankFacts& facts : job.ranks) {
    check_names(facts, findings);
    for (const auto& each : facts.variables) names.insert(each.first);
  }
  std::vector<std::string> in_force;
  for (const std::string& name : names) {
    const auto value = [&](const RankFacts& facts) {
      const auto found = facts.variables.find(name);
      return found == facts.variables.end() ? std::string() : found->second;
    };
    if (name.starts_with("LOCKSTEP_") || name.starts_with("OMPI_MCA_") || name.starts_with("MPICH_") ||
        name.starts_with("I_MPI_") || name.starts_with("UCX_") || name.starts_with("NCCL_") ||
        name == "OMP_NUM_THREADS") {
      if (is_of_one_rank(name)) continue;
      check_equal(job, value, environment, Severity::warning, name.c_str(),
                  "give all ranks the same value: mpirun -x NAME, MPICH's -genv NAME VALUE, srun --export", findings);
    }
    if (!is_of_one_rank(name) && (name.starts_with("LOCKSTEP_") || name.starts_with("OMPI_MCA_")))
      in_force.push_back(fmt::format("{}={}", name, value(job.ranks.front())));
  }
  findings.push_back({Severity::ok,
                      environment,
                      in_force.empty() ? "no variable of lockstep or MPI is set"
                                       : fmt::format("in force: {}", fmt::join(in_force, ", ")),
                      {},
                      {}});
}

}  // namespace doctor
