// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface for C: mpirun -n 3 example-collectives-c. Each rank has a share of a sum; all get the total.

#include <lockstep/lockstep.h>

#include <stdio.h>
#include <stdlib.h>

/// Ends the program after an error. The other ranks then get an error, too.
static void check(int code) {
  if (code == LOCKSTEP_SUCCESS) return;
  fprintf(stderr, "%s\n", lockstep_last_error_text());
  exit(EXIT_FAILURE);
}

int main(void) {
  lockstep_environment* environment;
  lockstep_communicator* world;
  int rank, size;
  check(lockstep_environment_create(&environment));  // initializes MPI
  check(lockstep_world("world", 0, &world));
  check(lockstep_rank(world, &rank));
  check(lockstep_size(world, &size));

  // memory that all ranks of the node can access: collectives work in place, without copies
  enum { n = 1000 };
  void* memory;
  check(lockstep_allocate(n * sizeof(double), &memory));
  double* values = memory;
  for (int i = 0; i < n; ++i) values[i] = rank + 1;
  check(lockstep_all_reduce(world, values, values, n, LOCKSTEP_F64, LOCKSTEP_SUM, LOCKSTEP_HERE));

  lockstep_request* request;
  int32_t slowest = 10 * rank;
  check(lockstep_all_reduce_async(world, &slowest, &slowest, 1, LOCKSTEP_I32, LOCKSTEP_MAX, &request, LOCKSTEP_HERE));
  check(lockstep_wait(&request));  // other work may come before
  if (rank == 0) printf("%d ranks, total %g, slowest %d\n", size, values[n - 1], (int)slowest);

  lockstep_deallocate(memory, n * sizeof(double));
  check(lockstep_communicator_free(&world));
  check(lockstep_environment_free(&environment));
}
