// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of MPI that make communicators, counted by MPI's profiling interface, at MPI_THREAD_SERIALIZED: at no time
// are two threads inside MPI, and none of the calls waits. Communicators that have seen a failure are freed. Prints a
// line and exits with 1 for each rule that is broken.

#include <lockstep/interop/mpi.hpp>
#include <lockstep/lockstep.hpp>

#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace {

std::atomic<int> inside{0};
std::atomic<long> together{0};  // calls that began while another thread was inside MPI
std::atomic<long> blocking{0};  // collectives that wait
std::atomic<long> duplicates{0};
std::atomic<long> gathers{0};
std::atomic<long> frees{0};

struct Call {
  Call() {
    if (++inside > 1) ++together;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { --inside; }
};

struct Counts {
  long blocking = ::blocking;
  long duplicates = ::duplicates;
  long gathers = ::gathers;
};

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are parameter lists
#define COUNTED(name, parameters, arguments, counter) \
  extern "C" int MPI_##name parameters {              \
    const Call call;                                  \
    counter;                                          \
    return PMPI_##name arguments;                     \
  }
COUNTED(Comm_dup, (MPI_Comm a, MPI_Comm* b), (a, b), ++blocking)
COUNTED(Comm_split, (MPI_Comm a, int c, int k, MPI_Comm* b), (a, c, k, b), ++blocking)
COUNTED(Comm_split_type, (MPI_Comm a, int t, int k, MPI_Info i, MPI_Comm* b), (a, t, k, i, b), ++blocking)
COUNTED(Comm_create_group, (MPI_Comm a, MPI_Group g, int t, MPI_Comm* b), (a, g, t, b), ++blocking)
COUNTED(Bcast, (void* a, int n, MPI_Datatype t, int r, MPI_Comm c), (a, n, t, r, c), ++blocking)
COUNTED(Allreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c),
        ++blocking)
COUNTED(Allgather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),
        (a, n, t, b, m, u, c), ++blocking)
COUNTED(Comm_idup, (MPI_Comm a, MPI_Comm* b, MPI_Request* r), (a, b, r), ++duplicates)
COUNTED(Iallgather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c, MPI_Request* r),
        (a, n, t, b, m, u, c, r), ++gathers)
COUNTED(Comm_free, (MPI_Comm * a), (a), ++frees)
COUNTED(Comm_set_errhandler, (MPI_Comm a, MPI_Errhandler e), (a, e), static_cast<void>(0))
COUNTED(Comm_rank, (MPI_Comm a, int* b), (a, b), static_cast<void>(0))
COUNTED(Comm_size, (MPI_Comm a, int* b), (a, b), static_cast<void>(0))
COUNTED(Test, (MPI_Request * a, int* b, MPI_Status* c), (a, b, c), static_cast<void>(0))
COUNTED(Testall, (int n, MPI_Request a[], int* b, MPI_Status c[]), (n, a, b, c), static_cast<void>(0))
COUNTED(Wait, (MPI_Request * a, MPI_Status* b), (a, b), static_cast<void>(0))
COUNTED(Cancel, (MPI_Request * a), (a), static_cast<void>(0))
COUNTED(Isend, (const void* a, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r), (a, n, t, d, g, c, r),
        static_cast<void>(0))
COUNTED(Irecv, (void* a, int n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Request* r), (a, n, t, s, g, c, r),
        static_cast<void>(0))
#undef COUNTED
// NOLINTEND(bugprone-macro-parentheses)

namespace {

int broken_rules = 0;

void expect(const char* what, long found, long most) {
  if (found <= most) return;
  ++broken_rules;
  std::printf("%s: %ld calls, at most %ld are allowed\n", what, found, most);
}

/// What `make` may call: `duplicates` times MPI_Comm_idup and `gathers` times MPI_Iallgather, and no blocking
/// collective.
template <class Make>
void count(const char* what, long duplicates, long gathers, const Make& make) {
  const Counts before;
  const auto made = make();
  const Counts after;
  std::printf("%s: MPI_Comm_idup %ld, MPI_Iallgather %ld, blocking %ld\n", what, after.duplicates - before.duplicates,
              after.gathers - before.gathers, after.blocking - before.blocking);
  expect("blocking collectives", after.blocking - before.blocking, 0);
  expect("MPI_Comm_idup", after.duplicates - before.duplicates, duplicates);
  expect("MPI_Iallgather", after.gathers - before.gathers, gathers);
}

/// Makes and destroys communicators in which a call fails on all ranks. All of them but the last few must be freed: a
/// rank frees a communicator when the last messages of the other ranks have arrived.
void expect_frees_after_failures(int rank) {
  constexpr int communicators = 20;
  const long before = frees;
  int failures = 0;
  for (int i = 0; i < communicators; ++i) {
    const lockstep::Communicator communicator = lockstep::world_communicator();
    std::vector<float> values(rank == 0 ? 1 : 2);
    try {
      communicator.all_reduce(std::span(values), lockstep::ReduceOp::sum);
    } catch (const lockstep::Error&) {
      ++failures;
    }
  }
  std::printf("failures: %d, MPI_Comm_free %ld\n", failures, frees - before);
  expect("communicators without a failure", communicators - failures, 0);
  expect("communicators that are not freed", communicators - (frees - before), 5);
}

}  // namespace

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  std::optional<lockstep::Environment> environment(std::in_place, argc, argv);
  const int rank = environment->rank();
  {
    count("world_communicator", 1, 0, [] { return lockstep::world_communicator(); });
    count("communicator_from", 1, 2, [] { return lockstep::communicator_from(MPI_COMM_SELF); });
    const lockstep::Communicator a = lockstep::world_communicator();
    const lockstep::Communicator b = a.duplicate({});
    count("duplicate", 0, 0, [&] { return a.duplicate({}); });
    count("split", 0, 0, [&] { return a.split(rank % 2, 0, {}); });
    const auto part = a.split(rank % 2, 0, {});
    count("split of a part", 0, 0, [&] { return part->split(0, 0, {}); });
    expect_frees_after_failures(rank);

    std::jthread calls([&] {
      for (int i = 0; i < 3000; ++i) static_cast<void>(b.all_reduce(1.0F, lockstep::ReduceOp::max));
    });
    for (int i = 0; i < 20; ++i) {
      const auto duplicate = a.duplicate({});
      const auto half = duplicate.split(rank % 2, 0, {});
    }
  }
  if (level == MPI_THREAD_SERIALIZED) expect("calls beside another thread's", together, 0);
  environment.reset();
  MPI_Finalize();
  return broken_rules == 0 ? 0 : 1;
}
