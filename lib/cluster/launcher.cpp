// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/launcher.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace lockstep::detail {
namespace {

struct Variable {
  const char* name;
  long least;  // the smallest value that proves more than one rank
  const char* launcher;
};

constexpr std::array<Variable, 7> variables{{
    {"OMPI_COMM_WORLD_SIZE", 2, "Open MPI's mpirun"},
    {"PMI_SIZE", 2, "MPICH's or Intel MPI's mpiexec (or srun --mpi=pmi2)"},
    {"FLUX_JOB_SIZE", 2, "flux run"},
    {"JSM_NAMESPACE_SIZE", 2, "jsrun"},
    {"PMIX_RANK", 1, "a PMIx launcher (srun --mpi=pmix, prterun)"},
    {"PALS_RANKID", 1, "PALS' mpiexec"},
    {"SLURM_PROCID", 1, "srun"},
}};

std::optional<long> number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  long value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc{} || end != view.data() + view.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string suspicion_of_wrong_launcher(const std::string& mpi_version) {
  for (const Variable& variable : variables) {
    const auto value = number(variable.name);
    if (!value || *value < variable.least) continue;
    return fmt::format(
        "MPI sees one rank, but {}={} says that {} started several. This program is linked with {}: start it with that "
        "library's own "
        "mpirun, or with srun --mpi=<what it was built for>. LOCKSTEP_ALLOW_SINGLETON=1 overrules this check",
        variable.name, *value, variable.launcher, mpi_version);
  }
  return {};
}

}  // namespace lockstep::detail
