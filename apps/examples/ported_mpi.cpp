// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The program of ported_mpi_before.cpp on lockstep, line for line. Both print the same.

#include <lockstep/lockstep.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  lockstep::Communicator comm = lockstep::world_communicator();
  const int rank = comm.rank();
  const int size = comm.size();
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

  comm.broadcast(steps, 0);
  comm.all_reduce(weights, lockstep::ReduceOp::sum);
  comm.all_gather(own, all);
  comm.all_to_all(row, swapped);
  comm.reduce(rank, largest, lockstep::ReduceOp::max, 0);
  comm.reduce_scatter(swapped, sum, lockstep::ReduceOp::sum);
  comm.scatter(swapped, part, 0);
  if (rank == 0) comm.send(token, size - 1);
  if (rank == size - 1) comm.recv(token, 0);
  const std::vector<double> result{1.0 * steps, weights[0], 1.0 * all.back(), 1.0 * part, 1.0 * sum, 1.0 * token};
  std::vector<double> results(6 * ranks);
  comm.gather(result, results, 0);

  if (rank == 0) std::printf("largest %d\n", largest);
  for (std::size_t i = 0; rank == 0 && i < results.size(); ++i)
    std::printf("%g%c", results[i], i % 6 == 5 ? '\n' : ' ');
}
