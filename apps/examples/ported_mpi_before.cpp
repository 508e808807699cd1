// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An MPI program that uses nine collectives, for 2 ranks or more; ported_mpi.cpp is the same program on lockstep, line
// for line.

#include <mpi.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto ranks = static_cast<std::size_t>(size);

  std::vector<double> weights{1.0 + rank, 2.0};
  std::vector<int> own{rank, 10 * rank};
  std::vector<int> all(2 * ranks);
  std::vector<int> swapped(ranks);
  std::vector<int> row(ranks, rank + 1);
  int steps = rank == 0 ? 5 : 0;
  int part = 0;
  int sum = 0;
  int largest = 0;
  int token = 100 + rank;

  MPI_Bcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, weights.data(), 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allgather(own.data(), 2, MPI_INT, all.data(), 2, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoall(row.data(), 1, MPI_INT, swapped.data(), 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Reduce(&rank, &largest, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce_scatter_block(swapped.data(), &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Scatter(swapped.data(), 1, MPI_INT, &part, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) MPI_Send(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD);
  if (rank == size - 1) MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const std::vector<double> result{1.0 * steps, weights[0], 1.0 * all.back(), 1.0 * part, 1.0 * sum, 1.0 * token};
  std::vector<double> results(6 * ranks);
  MPI_Gather(result.data(), 6, MPI_DOUBLE, results.data(), 6, MPI_DOUBLE, 0, MPI_COMM_WORLD);

  if (rank == 0) std::printf("largest %d\n", largest);
  for (std::size_t i = 0; rank == 0 && i < results.size(); ++i)
    std::printf("%g%c", results[i], i % 6 == 5 ? '\n' : ' ');
  MPI_Finalize();
}
