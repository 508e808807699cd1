// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives between nodes on simulated ranks. One process, no threads; time passes only in MPI calls, in sums and
// copies, which are charged to it, and where ranks of a node wait for words in its memory.
//
//   collectives COLLECTIVE:HOW:BYTES...     BYTES: see ScaledCall. HOW:
//       call      what a communicator does: the agreement and the data
//       data      the data alone, after the agreement
//       call-free-copies, data-free-copies     the same if copies in memory take no time, as inside of MPI
//       plan      the data of an all_reduce by messages alone, by the schedule that the planner chooses
//       RADICES   the same by these radices, written as in LOCKSTEP_RADICES
//       mpi       the MPI library's own collective
//
// Prints for each argument: collective, path of the data, segments, bytes, simulated us, modelled us (0: unknown), and
// the number of wrong elements. Of MPI's sums, which have an order of their own, those outside of a tolerance are
// wrong.

#include "scale/lockstep_call.hpp"
#include "scale/native_call.hpp"
#include "scale/scaled_call.hpp"

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

using namespace lockstep::detail;

ScaledTime run(SimulatedRank& job, ScaledCall& scaled, const std::string& how) {
  if (how == "mpi") return {"mpi", 1, run_native(scaled), 0};
  if (how == "call") return job.run_call(scaled, Copies::charged);
  if (how == "call-free-copies") return job.run_call(scaled, Copies::free);
  if (how == "data") return job.run_data(scaled, Copies::charged);
  if (how == "data-free-copies") return job.run_data(scaled, Copies::free);
  scaled.clear_output();
  return job.run_all_reduce(scaled, how == "plan" ? "" : how);
}

/// Returns the number of wrong elements over all ranks.
long measure(SimulatedRank& job, const std::string& argument) {
  const std::size_t first = argument.find(':');
  const std::size_t last = argument.rfind(':');
  const std::string how = argument.substr(first + 1, last - first - 1);
  const std::int64_t bytes = std::stoll(argument.substr(last + 1));
  ScaledCall scaled(kind_of(argument.substr(0, first)), job.ranks(), job.rank(), bytes);
  const ScaledTime time = run(job, scaled, how);
  const long wrong = scaled.wrong(how == "mpi" ? Sums::any_order : Sums::canonical);
  if (job.rank() == 0) {
    const std::string name(scaled.call().name());
    std::printf("%s %s %d %lld %.3f %.3f %ld\n", name.c_str(), time.path.c_str(), time.segments,
                static_cast<long long>(bytes), time.us, time.model_us, wrong);
    std::fflush(stdout);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  long wrong = 0;
  try {
    SimulatedRank job;
    for (int i = 1; i < argc; ++i) wrong += measure(job, argv[i]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
