// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A program whose main and two libraries use lockstep, each by itself: environments STEP...
// A step is a part (m: main, a, b: the libraries) with an action, such as a+ (Part::step), or one of these of MPI:
// init, finalize, sum. Prints "done" on rank 0 at the end, and whether MPI has been finalized.

#include "environments.hpp"

#include <mpi.h>

#include <cstdio>
#include <exception>
#include <string>

extern "C" bool step_of_a(char action);
extern "C" bool step_of_b(char action);

namespace {

void sum_by_mpi() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int sum = rank + 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("MPI: sum %d\n", sum);
}

bool make(const std::string& step, parts::Part& own) {
  if (step == "init") return MPI_Init(nullptr, nullptr) == MPI_SUCCESS;
  if (step == "finalize") return MPI_Finalize() == MPI_SUCCESS;
  if (step == "sum") return sum_by_mpi(), true;
  if (step.size() != 2) return false;
  switch (step[0]) {
    case 'm': return own.step(step[1]);
    case 'a': return step_of_a(step[1]);
    case 'b': return step_of_b(step[1]);
    default: return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rank = 0;
  parts::Part own("main");
  for (int i = 1; i < argc; ++i) {
    try {
      if (!make(argv[i], own)) {
        std::fprintf(stderr, "environments: the step \"%s\" is not known\n", argv[i]);
        return 2;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.what());
    }
    int is_initialized = 0;
    int is_finalized = 0;
    MPI_Initialized(&is_initialized);
    MPI_Finalized(&is_finalized);
    if (is_initialized != 0 && is_finalized == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && is_finalized != 0) std::printf("%s: MPI has been finalized\n", argv[i]);
  }
  if (rank == 0) std::printf("done\n");
  return 0;
}
