// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A program of MPI that knows nothing of lockstep, for drop_in_test.py: scenarios SCENARIO. Prints "done" on rank 0 if
// it reaches its end.

#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

int rank = 0;
int size = 1;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "rank %d: not true: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

int sum_of(int value, MPI_Comm comm = MPI_COMM_WORLD) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

/// Wrong programs. MPI waits in most of them, or goes on with wrong values.
void counts_differ() {
  std::vector<double> values(8, 1.0);
  MPI_Allreduce(MPI_IN_PLACE, values.data(), rank == 0 ? 8 : 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
void calls_differ() {
  double value = 1;
  rank == 0 ? MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD)
            : MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
void forgotten() {
  if (rank != size - 1) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(60));
  }
}
void dies(int signal) {
  sum_of(1);
  if (rank == 1) std::raise(signal);
  sum_of(1);
}
void stopped() { dies(SIGSTOP); }
void killed() { dies(SIGKILL); }

/// After an error that the program handles, MPI and lockstep can be used again.
void errors_return() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::vector<double> values(8, 1.0);
  const int code = MPI_Allreduce(MPI_IN_PLACE, values.data(), rank == 0 ? 8 : 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  require(error_class == MPI_ERR_ARG, "different counts give MPI_ERR_ARG");
  require(sum_of(rank + 1) == size * (size + 1) / 2, "the next call is right");
}

void many_communicators() {
  for (int i = 0; i < 300; ++i) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    require(sum_of(1, copy) == size, "the sum on a duplicate");
    MPI_Comm_free(&copy);
  }
  MPI_Comm half = MPI_COMM_NULL;  // not freed: ends with MPI
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  require(sum_of(1, half) == (size + 1 - rank % 2) / 2, "the sum on a half");
}

/// What MPI keeps: operations and pairs of groups that lockstep does not have, between calls that are taken over.
void kept_by_mpi() {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(
      [](void* in, void* out, int* count, MPI_Datatype*) {
        for (int i = 0; i < *count; ++i)
          static_cast<int*>(out)[i] = 10 * static_cast<int*>(out)[i] + static_cast<int*>(in)[i];
      },
      0, &op);
  int one = 1;
  int result = 0;
  MPI_Allreduce(&one, &result, 1, MPI_INT, op, MPI_COMM_WORLD);
  require(size == 1 || result > 1, "the user's operation was called");
  MPI_Op_free(&op);
  require(sum_of(1) == size, "the sum after it");
  if (size < 2) return;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm both = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &both);
  require(sum_of(1, both) == (size + rank % 2) / 2, "the sum over the other half");
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

/// A rank that waits in a collective goes on with its pending messages.
void pending_send() {
  std::vector<char> data(16 << 20, static_cast<char>(rank));
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request);
  if (rank == 1)
    MPI_Recv(data.data(), static_cast<int>(data.size()), MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  require(sum_of(1) == size, "the sum beside a message");
  if (rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 1) require(data.back() == 0, "the message arrived");
}

void two_threads() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  const auto loop = [](MPI_Comm comm) {
    for (int i = 0; i < 500; ++i) require(sum_of(i, comm) == i * size, "the sum of a thread");
  };
  std::thread other(loop, copy);
  loop(MPI_COMM_WORLD);
  other.join();
  MPI_Comm_free(&copy);
}

/// A loop of small sums, for times: prints the nanoseconds of one.
void loop() {
  double value = 1;
  constexpr int calls = 20000;
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%.0f ns\n", (MPI_Wtime() - begin) / calls * 1e9);
}

struct Scenario {
  const char* name;
  void (*run)();
};

}  // namespace

int main(int argc, char** argv) {
  constexpr Scenario scenarios[] = {{"counts-differ", counts_differ},
                                    {"calls-differ", calls_differ},
                                    {"forgotten", forgotten},
                                    {"stopped", stopped},
                                    {"killed", killed},
                                    {"errors-return", errors_return},
                                    {"communicators", many_communicators},
                                    {"kept-by-mpi", kept_by_mpi},
                                    {"pending-send", pending_send},
                                    {"threads", two_threads},
                                    {"loop", loop}};
  const std::string name = argc > 1 ? argv[1] : "";
  int level = 0;
  MPI_Init_thread(&argc, &argv, name == "threads" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool is_known = false;
  for (const Scenario& scenario : scenarios) {
    if (name != scenario.name) continue;
    scenario.run();
    is_known = true;
  }
  require(is_known, "the scenario is known");
  if (rank == 0) std::printf("done\n");
  MPI_Finalize();
  return 0;
}
