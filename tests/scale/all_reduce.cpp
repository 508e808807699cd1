// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce between nodes on simulated ranks: the transport over SimGrid's SMPI, the planner, the mixed-radix
// operation. One process, no threads; time passes only in MPI calls and in sums, which are charged to it.
//
//   all_reduce RADICES:BYTES...     RADICES as in LOCKSTEP_RADICES, "plan", or "mpi" for the MPI library's own
//                                   all_reduce
//
// Prints for each argument: radices, segments, bytes, simulated us, modelled us, and the number of wrong results (those
// of the MPI library are not counted: it has an order of its own).

#include "collectives/call/descriptor.hpp"
#include "collectives/host/operations.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "kernels/reduce.hpp"
#include "schedule/planner.hpp"
#include "transport/mpi/mpi_transport.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {
namespace {

/// A value of varying magnitude: sums depend on the order.
float leaf(int rank, std::size_t element) {
  std::uint64_t x = static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15u + element * 0xD1B54A32D192ED03u + 1;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  x *= 0x94D049BB133111EBu;
  x ^= x >> 31;
  return (static_cast<float>(x & 0xFFFFFF) / 8388608.0f - 1.0f) * static_cast<float>(1u << (x >> 60));
}

/// The definition: neighbours of equal size first.
float canonical_sum(int ranks, std::size_t element) {
  std::vector<float> values(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) values[static_cast<std::size_t>(rank)] = leaf(rank, element);
  for (std::size_t width = 1; width < values.size(); width *= 2) {
    for (std::size_t i = 0; i + width < values.size(); i += 2 * width) values[i] += values[i + width];
  }
  return values.front();
}

struct ScaledRank {
  int rank = 0;
  int ranks = 1;
  Transport& transport;
  Workspace workspace;
};

/// All ranks return at the same simulated time, which a barrier cannot do. There is one clock.
double meet() {
  const double now = MPI_Wtime();
  const double wait = std::floor(now) + 1 - now;
  timespec time{};
  time.tv_nsec = static_cast<long>(wait * 1e9);
  nanosleep(&time, nullptr);
  return MPI_Wtime();
}

/// Simulated microseconds of the slowest rank since `begin`.
double slowest_us(double begin) {
  double seconds = MPI_Wtime() - begin;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds * 1e6;
}

/// Adds, and charges as much time as `reduce` for two inputs.
void charged_sum(void* in, void* inout, int* length, MPI_Datatype*) {
  const FoldInput inputs[] = {{inout, false}, {in, false}};
  const std::uint8_t merges[] = {0, 1};
  void* const output = inout;
  reduce({.inputs = inputs, .merges = merges, .outputs = std::span(&output, 1)}, *length);
}

double run_native(std::vector<float>& values) {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(charged_sum, 1, &op);
  double us = 0;
  std::vector<float> result(values.size());
  for (int warm = 0; warm < 2; ++warm) {  // the first call makes communicators
    const double begin = meet();
    MPI_Allreduce(values.data(), result.data(), static_cast<int>(values.size()), MPI_FLOAT, op, MPI_COMM_WORLD);
    us = slowest_us(begin);
  }
  MPI_Op_free(&op);
  return us;
}

/// Simulated microseconds of the slowest rank.
double run(ScaledRank& job, const std::shared_ptr<const RankSchedule>& schedule, std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const HostItem item{DType::f32, Shape{count}, {values.data()}, {values.data()}};
  const Descriptor descriptor =
      make_descriptor(Call::all_reduce(ReduceOp::sum), Order::canonical, std::span(&item, 1), "");
  const auto operation = make_mixed_radix_exchange(descriptor, schedule, job.rank, {item});
  const double begin = meet();
  operation->start(job.transport, job.workspace);
  while (!operation->advance(job.transport, job.workspace)) {}
  return slowest_us(begin);
}

/// Returns the number of wrong elements over all ranks.
long measure(ScaledRank& job, const std::string& radices, std::int64_t bytes) {
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
  for (std::size_t e = 0; e < values.size(); ++e) values[e] = leaf(job.rank, e);
  if (radices == "mpi") {
    const double us = run_native(values);
    if (job.rank == 0) std::printf("mpi 1 %lld %.3f 0 0\n", static_cast<long long>(bytes), us);
    return 0;
  }
  const ReplicaLayout layout(std::vector<int>(static_cast<std::size_t>(job.ranks), 1));
  ScheduleCache cache(layout, job.transport.node_leaders(), job.rank, {radices == "plan" ? "" : radices, 0});
  auto schedule = cache.find(bytes);
  if (schedule == nullptr) {
    ScheduleCache direct(layout, job.transport.node_leaders(), job.rank, {"0", 1});
    schedule = direct.find(bytes);
  }
  const double us = run(job, schedule, values);
  long wrong = 0;
  const std::size_t step = std::max<std::size_t>(1, values.size() / 1000);
  for (std::size_t e = 0; e < values.size(); e += step) wrong += values[e] != canonical_sum(job.ranks, e) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (job.rank == 0) {
    const ScheduleChoice model = priced(schedule->layout(), {}, schedule->radices(), bytes, schedule->segments());
    std::printf("%s %d %lld %.3f %.3f %ld\n", to_string(model.radices).c_str(), schedule->segments(),
                static_cast<long long>(bytes), us, model.time_us, wrong);
    std::fflush(stdout);
  }
  return wrong;
}

}  // namespace
}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  MPI_Init(&argc, &argv);
  long wrong = 0;
  {
    const auto transport = make_mpi_transport(MPI_COMM_WORLD, false);
    ScaledRank job{transport->rank(), transport->size(), *transport, {}};
    for (int i = 1; i < argc; ++i) {
      const std::string text(argv[i]);
      const std::size_t colon = text.find(':');
      wrong += measure(job, text.substr(0, colon), std::stoll(text.substr(colon + 1)));
    }
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
