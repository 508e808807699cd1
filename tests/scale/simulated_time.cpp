// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "scale/simulated_time.hpp"

#include <mpi.h>

#include <cmath>
#include <ctime>

namespace lockstep::detail {
namespace {

constexpr double memory_bytes_per_second = 40e9;
constexpr double host_flops = 1e9;
constexpr std::size_t least_charged_bytes = 512;

Copies copies_of_this_rank = Copies::free;  // every rank has its own copy of this variable

}  // namespace

void pass_time(double seconds) {
  timespec time{};
  time.tv_nsec = std::lround(seconds * 1e9);
  nanosleep(&time, nullptr);
}

void charge_memory(std::size_t bytes) {
  smpi_execute_flops(static_cast<double>(bytes) / memory_bytes_per_second * host_flops);
}

void set_copies(Copies copies) { copies_of_this_rank = copies; }

void charge_copy(std::size_t bytes) {
  if (copies_of_this_rank == Copies::charged && bytes >= least_charged_bytes) charge_memory(2 * bytes);
}

double now() { return MPI_Wtime(); }

double meet() {
  const double begin = now();
  pass_time(std::floor(begin) + 1 - begin);
  return now();
}

double slowest_us(double begin) {
  double seconds = now() - begin;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds * 1e6;
}

}  // namespace lockstep::detail
