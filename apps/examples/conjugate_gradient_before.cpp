// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A conjugate-gradient solver on MPI alone. conjugate_gradient.cpp is the same program on lockstep.

#include <mpi.h>

#include <cmath>
#include <cstddef>
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

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> counts, begins;  // the rows of each rank
  for (int r = 0; r < size; ++r) begins.push_back(rows * r / size);
  for (int r = 0; r < size; ++r) counts.push_back(rows * (r + 1) / size - begins[static_cast<std::size_t>(r)]);
  const auto me = static_cast<std::size_t>(rank);
  const auto own = static_cast<std::size_t>(counts[me]);

  std::vector<double> x(own), residual(own, 1.0), direction(residual), product(own), whole(rows);
  double square = dot(residual, residual);
  for (int step = 1; step <= 15; ++step) {
    MPI_Allgatherv(direction.data(), counts[me], MPI_DOUBLE, whole.data(), counts.data(), begins.data(), MPI_DOUBLE,
                   MPI_COMM_WORLD);
    multiply(whole, begins[me], product);
    const double length = square / dot(direction, product);
    for (std::size_t i = 0; i < own; ++i) x[i] += length * direction[i];
    for (std::size_t i = 0; i < own; ++i) residual[i] -= length * product[i];
    const double next = dot(residual, residual);
    for (std::size_t i = 0; i < own; ++i) direction[i] = residual[i] + next / square * direction[i];
    square = next;
    if (rank == 0) std::printf("step %d: residual %.6e\n", step, std::sqrt(square));
  }
  MPI_Finalize();
}
