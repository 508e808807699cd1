// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A usual MPI program, with its own MPI_Init and its own std::vector<float>, that computes its sums with lockstep in
// two marked lines. It fits a straight line to points; each rank has points of its own.

#include "apps/options/version.hpp"

#include <lockstep/interop/mpi.hpp>

#include <mpi.h>

#include <cstdio>
#include <span>
#include <vector>

namespace {

constexpr const char* usage =
    "Usage: mpirun -n P lockstep-descent\n"
    "An MPI program that sums its gradients with lockstep: fits a line to points of all ranks, and prints the line.\n";
constexpr int points_per_rank = 1000;
constexpr int steps = 200;

/// Point i of a rank on y = 3 x + 1, with a disturbance that cancels out.
struct Point {
  float x;
  float y;
};
Point point(int rank, int i) {
  const float x = static_cast<float>((i * 37 + rank * 11) % points_per_rank) / points_per_rank;
  const float disturbance = i % 2 == 0 ? 0.01f : -0.01f;
  return {x, 3 * x + 1 + disturbance};
}

/// The gradient of the mean squared error over this rank's points.
void differentiate(int rank, const std::vector<float>& line, std::vector<float>& gradient) {
  gradient.assign(2, 0.0f);
  for (int i = 0; i < points_per_rank; ++i) {
    const Point p = point(rank, i);
    const float error = line[0] * p.x + line[1] - p.y;
    gradient[0] += 2 * error * p.x / points_per_rank;
    gradient[1] += 2 * error / points_per_rank;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto code = options::end_by_arguments(argc, argv, "lockstep-descent", usage)) return *code;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    auto comm = lockstep::communicator_from(MPI_COMM_WORLD);  // the first line
    std::vector<float> line(2, 0.0f);
    std::vector<float> gradient;
    for (int step = 0; step < steps; ++step) {
      differentiate(rank, line, gradient);
      // the second line, in place of MPI_Allreduce and a division
      comm.all_reduce(std::span(gradient), lockstep::ReduceOp::mean);
      for (std::size_t k = 0; k < line.size(); ++k) line[k] -= 0.5f * gradient[k];
    }
    if (rank == 0) std::printf("y = %.2f x + %.2f\n", static_cast<double>(line[0]), static_cast<double>(line[1]));
  }
  MPI_Finalize();
  return 0;
}
