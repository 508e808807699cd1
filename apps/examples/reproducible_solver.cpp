// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A conjugate-gradient solver that makes the same iterations, to the last bit, on any number of ranks. Its dot products
// are reproducible; everything else that it computes belongs to one element alone.
//
//   mpirun -n 3 example-reproducible-solver

#include <lockstep/collectives/reproducible.hpp>
#include <lockstep/lockstep.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr std::int64_t rows = 10'000;  // of the matrix, which has 2.01 on its diagonal and -1 beside it
constexpr double tolerance = 1e-20;    // for the square of the residual

}  // namespace

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const auto comm = lockstep::world_communicator();
  const auto first_of = [&](int rank) { return rows * rank / comm.size(); };
  const std::int64_t first = first_of(comm.rank());
  std::vector<std::int64_t> counts;  // the rows of each rank
  for (int rank = 0; rank < comm.size(); ++rank) counts.push_back(first_of(rank + 1) - first_of(rank));
  const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]);
  const auto dot = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return lockstep::reproducible::dot(comm, a, b, first);
  };

  std::vector<double> x(own), residual(own), product(own), whole(rows);
  for (std::size_t i = 0; i < own; ++i)
    residual[i] = 1.0 / static_cast<double>(first + static_cast<std::int64_t>(i) + 1);
  std::vector<double> direction = residual;
  double square = dot(residual, residual);
  int steps = 0;
  for (; square > tolerance && steps < 2000; ++steps) {
    comm.all_gather_v(direction, whole, counts);
    for (std::size_t i = 0; i < own; ++i) {
      const auto row = static_cast<std::size_t>(first) + i;
      const double before = row == 0 ? 0.0 : whole[row - 1];
      const double after = row + 1 == whole.size() ? 0.0 : whole[row + 1];
      product[i] = 2.01 * whole[row] - before - after;
    }
    const double length = square / dot(direction, product);
    for (std::size_t i = 0; i < own; ++i) x[i] += length * direction[i];
    for (std::size_t i = 0; i < own; ++i) residual[i] -= length * product[i];
    const double next = dot(residual, residual);
    for (std::size_t i = 0; i < own; ++i) direction[i] = residual[i] + next / square * direction[i];
    square = next;
  }
  const double norm = lockstep::reproducible::norm(comm, x, first);
  if (comm.rank() == 0) std::printf("%d steps, residual %a, norm of the solution %a\n", steps, square, norm);
}
