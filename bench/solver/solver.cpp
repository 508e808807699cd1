// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a solver would gain: calls of one double as they are in its source, without plans and outside of the arena.
//
//   mpirun -n 2 lockstep-solver [ROUNDS]
//
// Measures, with MPI and with lockstep in turns: a loop of all_reduces of one double; a loop of broadcasts, gathers and
// all_gathers of 8 bytes; iterations of a conjugate-gradient solver, which has two dot products and exchanges the rows
// at the borders by plain MPI; and dot products of long vectors, which lockstep computes reproducibly. Prints the
// medians of the rounds (default: 41). Exit code 1 if a result is wrong.

#include <lockstep/collectives/reproducible.hpp>
#include <lockstep/interop/mpi.hpp>
#include <lockstep/lockstep.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int calls = 2000;          // of one round
constexpr int iterations = 200;      // of one round
constexpr int rows = 1000;           // of each rank's part of the matrix
constexpr int dots = 20;             // of one round
constexpr int elements = 1'000'000;  // of each rank's part of a long vector

/// The sum of `value` over all ranks.
using Sum = std::function<double(double)>;

double sum_by_mpi(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return value;
}

/// A tridiagonal system: 2.5 on the diagonal, -1 beside it, 1 on the right side.
class Solver {
 public:
  Solver() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  /// The square of the residual after `iterations` iterations.
  template <class SumOf>
  double run(const SumOf& sum_of) {
    std::fill(residual_.begin(), residual_.end(), 1.0);
    direction_.assign(residual_.begin(), residual_.end());
    direction_.insert(direction_.begin(), 0.0);
    direction_.push_back(0.0);
    double square = sum_of(dot(residual_, residual_));
    for (int k = 0; k < iterations; ++k) {
      exchange_borders();
      for (std::size_t i = 0; i < rows; ++i) product_[i] = 2.5 * direction_[i + 1] - direction_[i] - direction_[i + 2];
      const std::span<const double> inner(direction_.data() + 1, rows);
      const double length = square / sum_of(dot(inner, product_));
      for (std::size_t i = 0; i < rows; ++i) residual_[i] -= length * product_[i];
      const double next = sum_of(dot(residual_, residual_));
      // the same system again after the residual has vanished, so that every iteration costs the same
      const double ratio = next > 1e-200 ? next / square : 0.0;
      for (std::size_t i = 0; i < rows; ++i) direction_[i + 1] = residual_[i] + ratio * direction_[i + 1];
      square = std::max(next, 1e-200);
    }
    return square;
  }

 private:
  static double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  void exchange_borders() {
    const int before = rank_ == 0 ? MPI_PROC_NULL : rank_ - 1;
    const int after = rank_ + 1 == size_ ? MPI_PROC_NULL : rank_ + 1;
    MPI_Sendrecv(&direction_[rows], 1, MPI_DOUBLE, after, 0, direction_.data(), 1, MPI_DOUBLE, before, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&direction_[1], 1, MPI_DOUBLE, before, 1, &direction_[rows + 1], 1, MPI_DOUBLE, after, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  int rank_ = 0;
  int size_ = 1;
  std::vector<double> residual_ = std::vector<double>(rows);
  std::vector<double> direction_;
  std::vector<double> product_ = std::vector<double>(rows);
};

struct Contest {
  const char* name;
  int repetitions;             // that one round makes
  std::function<void()> mpi;   // one round
  std::function<void()> ours;  // one round
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double microseconds(const std::function<void()>& round, int repetitions) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  round();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repetitions;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);  // as a program that was written for MPI: with MPI_THREAD_SINGLE, MPI is fastest
  const lockstep::Communicator comm = lockstep::communicator_from(MPI_COMM_WORLD);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 41;
  const int size = comm.size();
  bool is_right = true;

  Solver solver;
  std::vector<double> all(static_cast<std::size_t>(size));
  double one = 1;
  const std::vector<double> x(elements, 0.5);
  const std::vector<double> y(elements, 2.0);
  const auto expect = [&](double found, double expected) { is_right = is_right && found == expected; };
  const std::array contests{
      Contest{"all_reduce of a double", calls,
              [&] {
                for (int k = 0; k < calls; ++k) expect(sum_by_mpi(k), double(k) * size);
              },
              [&] {
                for (int k = 0; k < calls; ++k)
                  expect(comm.all_reduce(double(k), lockstep::ReduceOp::sum), double(k) * size);
              }},
      Contest{"broadcast of a double", calls,
              [&] {
                for (int k = 0; k < calls; ++k) MPI_Bcast(&one, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
              },
              [&] {
                for (int k = 0; k < calls; ++k) comm.broadcast(std::span(&one, 1), 0);
              }},
      Contest{"gather of a double", calls,
              [&] {
                for (int k = 0; k < calls; ++k)
                  MPI_Gather(&one, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
              },
              [&] {
                for (int k = 0; k < calls; ++k) comm.gather(std::span(&one, 1), std::span(all), 0);
              }},
      Contest{"all_gather of a double", calls,
              [&] {
                for (int k = 0; k < calls; ++k)
                  MPI_Allgather(&one, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, MPI_COMM_WORLD);
              },
              [&] {
                for (int k = 0; k < calls; ++k) comm.all_gather(std::span(&one, 1), std::span(all));
              }},
      Contest{"conjugate-gradient iteration", iterations,
              [&] { is_right = is_right && std::isfinite(solver.run(sum_by_mpi)); },
              [&] {
                is_right = is_right && std::isfinite(solver.run([&](double value) {
                             return comm.all_reduce(value, lockstep::ReduceOp::sum);
                           }));
              }},
      Contest{"dot product of 10^6 elements", dots,
              [&] {
                for (int k = 0; k < dots; ++k)
                  expect(sum_by_mpi(std::inner_product(x.begin(), x.end(), y.begin(), 0.0)), double(elements) * size);
              },
              [&] {
                for (int k = 0; k < dots; ++k)
                  expect(lockstep::reproducible::dot(comm, x, y, std::int64_t{elements} * comm.rank()),
                         double(elements) * size);
              }},
  };
  if (comm.rank() == 0) std::printf("%-30s %10s %10s %7s\n", "median of rounds, us", "MPI", "lockstep", "ratio");
  for (const Contest& contest : contests) {
    std::vector<double> mpi;
    std::vector<double> ours;
    for (int round = -1; round < rounds; ++round) {
      const double mpi_time = microseconds(contest.mpi, contest.repetitions);
      const double our_time = microseconds(contest.ours, contest.repetitions);
      if (round < 0) continue;  // the first round warms up
      mpi.push_back(mpi_time);
      ours.push_back(our_time);
    }
    if (comm.rank() == 0)
      std::printf("%-30s %10.3f %10.3f %7.2f\n", contest.name, median(mpi), median(ours), median(ours) / median(mpi));
  }
  if (comm.rank() == 0 && !is_right) std::fprintf(stderr, "lockstep-solver: a result is wrong\n");
  MPI_Finalize();
  return is_right ? 0 : 1;
}
