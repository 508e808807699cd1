// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace lockstep::detail {
namespace {

struct LauncherVariable {
  const char* name;
  long least;  // smallest value that shows that there is more than one rank
  const char* launcher;
};

constexpr std::array<LauncherVariable, 8> variables{{
    {"OMPI_COMM_WORLD_SIZE", 2, "Open MPI's mpirun"},
    {"PMI_SIZE", 2, "MPICH's or Intel MPI's mpiexec (or srun --mpi=pmi2)"},
    {"FLUX_JOB_SIZE", 2, "flux run"},
    {"JSM_NAMESPACE_SIZE", 2, "jsrun"},
    {"PMIX_RANK", 1, "a PMIx launcher (srun --mpi=pmix, prterun)"},
    {"PALS_RANKID", 1, "PALS' mpiexec"},
    {"SLURM_PROCID", 1, "srun"},  // a batch script has SLURM_PROCID=0, too, but not SLURM_STEP_NUM_TASKS
    {"SLURM_STEP_NUM_TASKS", 2, "srun"},
}};

struct Batch {
  const char* name;  // environment variable that holds the job number
  const char* system;
};

constexpr std::array<Batch, 4> batches{{
    {"SLURM_JOB_ID", "Slurm"},
    {"PBS_JOBID", "PBS"},
    {"LSB_JOBID", "LSF"},
    {"FLUX_JOB_ID", "Flux"},
}};

std::optional<long> number(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::nullopt : number_of(text);
}

std::string job_name_from_environment() {
  std::string name;
  const auto add = [&name](const char* variable) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') return false;
    if (!name.empty()) name += '-';
    name += value;
    return true;
  };
  for (const Batch& batch : batches) {
    if (add(batch.name)) break;
  }
  // srun without PMIx numbers its steps; under mpirun, SLURM_STEP_ID describes the daemons of mpirun
  if (!add("PMIX_NAMESPACE") && launcher_within_slurm().empty()) add("SLURM_STEP_ID");
  if (name.empty()) {
    const bool has_launcher = std::any_of(variables.begin(), variables.end(),
                                          [](const auto& each) { return std::getenv(each.name) != nullptr; });
    name = has_launcher ? fmt::format("ppid{}", ::getppid()) : fmt::format("pid{}", ::getpid());
  }
  const auto is_plain = [](char each) {
    return (each >= '0' && each <= '9') || (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
           each == '.' || each == '-';
  };
  for (char& each : name) each = is_plain(each) ? each : '_';
  return name;
}

}  // namespace

std::string launcher_mismatch(const std::string& mpi_version) {
  for (const LauncherVariable& variable : variables) {
    const auto value = number(variable.name);
    if (!value || *value < variable.least) continue;
    // under mpirun, the SLURM_* variables describe mpirun's daemon
    if (std::string_view(variable.launcher) == "srun" && !launcher_within_slurm().empty()) continue;
    return fmt::format(
        "MPI sees one rank, but {}={} shows that {} started several. This program is linked with {}: start it with the "
        "mpirun of that library, or with srun --mpi=<the type that it was built for>. LOCKSTEP_ALLOW_SINGLETON=1 "
        "disables this check",
        variable.name, *value, variable.launcher, mpi_version);
  }
  return {};
}

std::string launcher_of_this_process() {
  std::string text = "an unknown launcher";
  for (const LauncherVariable& variable : variables) {
    if (std::getenv(variable.name) == nullptr) continue;
    text = variable.launcher;
    break;
  }
  for (const Batch& batch : batches) {
    const char* const job = std::getenv(batch.name);
    if (job != nullptr) return fmt::format("{} in {} job {}", text, batch.system, job);
  }
  return text;
}

std::string name_of_this_job() {
  // in a process without a launcher, Open MPI sets PMIX_NAMESPACE in MPI_Init, and removes it in MPI_Finalize
  static const std::string name = job_name_from_environment();
  return name;
}

std::string launcher_within_slurm() {
  const char* const space = std::getenv("PMIX_NAMESPACE");
  if (space != nullptr && std::string_view(space).starts_with("slurm.")) return {};
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) return "Open MPI's mpirun";
  if (std::getenv("MPI_LOCALNRANKS") != nullptr) return "MPICH's or Intel MPI's mpiexec";
  return {};
}

std::optional<long> number_of(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep::detail
