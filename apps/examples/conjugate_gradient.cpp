// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A conjugate-gradient solver on lockstep, ported from conjugate_gradient_before.cpp. Its residuals are those of the
// MPI program.

#include <lockstep/lockstep.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

namespace {

constexpr int rows = 1000;  // of the matrix, which has 2.5 on its diagonal and -1 beside it

/// The rows [first, first + y.size()) of the matrix times `x`, which is whole.
void multiply(const std::vector<double>& x, int first, std::vector<double>& y) {
  for (int i = first; i < first + static_cast<int>(y.size()); ++i) {
    const auto at = [&](int k) { return k < 0 || k >= rows ? 0.0 : x[static_cast<std::size_t>(k)]; };
    y[static_cast<std::size_t>(i - first)] = 2.5 * at(i) - at(i - 1) - at(i + 1);
  }
}

double dot(const lockstep::Communicator& comm, const std::vector<double>& a, const std::vector<double>& b) {
  return comm.all_reduce(std::inner_product(a.begin(), a.end(), b.begin(), 0.0), lockstep::ReduceOp::sum);
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const auto comm = lockstep::world_communicator();
  const int rank = comm.rank(), size = comm.size();
  std::vector<std::int64_t> counts;  // the rows of each rank
  for (int r = 0; r < size; ++r) counts.push_back(rows * (r + 1) / size - rows * r / size);
  const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);

  std::vector<double> x(own), residual(own, 1.0), direction(residual), product(own), whole(rows);
  double square = dot(comm, residual, residual);
  for (int step = 1; step <= 15; ++step) {
    comm.all_gather_v(direction, whole, counts);
    multiply(whole, rows * rank / size, product);
    const double length = square / dot(comm, direction, product);
    for (std::size_t i = 0; i < own; ++i) x[i] += length * direction[i];
    for (std::size_t i = 0; i < own; ++i) residual[i] -= length * product[i];
    const double next = dot(comm, residual, residual);
    for (std::size_t i = 0; i < own; ++i) direction[i] = residual[i] + next / square * direction[i];
    square = next;
    if (rank == 0) std::printf("step %d: residual %.6e\n", step, std::sqrt(square));
  }
}
