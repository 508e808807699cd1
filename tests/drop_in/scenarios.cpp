// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A program of MPI that knows nothing of lockstep, for drop_in_test.py: scenarios SCENARIO. Prints "done" on rank 0 if
// it reaches its end.

#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

int rank = 0;
int size = 1;

/// Number of allocations of this thread by operator new until one fails; 0: none fails.
thread_local int allocations_left = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  if (allocations_left > 0 && --allocations_left == 0) throw std::bad_alloc();
  if (void* const block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }

namespace {

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

/// As `sum_of`, by a call that MPI makes itself.
int sum_by_mpi(int value) {
  int sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
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
void roots_differ() {
  struct {
    double value = rank;
    int index = rank;
  } own, result;
  MPI_Reduce(&own, &result, 1, MPI_DOUBLE_INT, MPI_MAXLOC, rank == 0 ? 0 : 1, MPI_COMM_WORLD);
}
void forgotten() {
  if (rank != size - 1) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    std::this_thread::sleep_for(std::chrono::minutes(10));
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
  // as many counts as the other group has ranks
  const int others = (size + rank % 2) / 2;
  const std::vector<int> counts(static_cast<std::size_t>(others), 1);
  std::vector<int> places;
  for (int i = 0; i < others; ++i) places.push_back(i);
  std::vector<int> all(static_cast<std::size_t>(others), -1);
  MPI_Allgatherv(&rank, 1, MPI_INT, all.data(), counts.data(), places.data(), MPI_INT, both);
  for (int i = 0; i < others; ++i) require(all[static_cast<std::size_t>(i)] == 2 * i + 1 - rank % 2, "an allgatherv");
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

/// A rank that comes when the others have failed, but comes: the job must not be ended afterwards, nor after
/// MPI_Finalize.
void late() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int value = 1;
  int sum = 0;
  if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  require(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS, "a rank was late");
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // the late rank may be one call behind
  require(sum_of(1) == size, "the last sum");
}

/// A buffer that is only sent may be in memory that cannot be written.
void read_only_scatter() {
  static const int values[4] = {5, 6, 7, 8};
  const int counts[4] = {1, 1, 1, 1};
  const int places[4] = {0, 1, 2, 3};
  int own = -1;
  if (rank == 0) {
    MPI_Scatter(values, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scatterv(values, counts, places, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_WORLD);
  } else {
    MPI_Scatter(nullptr, 0, MPI_INT, &own, 1, MPI_INT, 0, MPI_COMM_WORLD);
    require(own == values[rank], "the part of a scatter");
    own = -1;
    MPI_Scatterv(nullptr, nullptr, nullptr, MPI_INT, &own, 1, MPI_INT, 0, MPI_COMM_WORLD);
    require(own == values[rank], "the part of a scatterv");
  }
}

/// Types of Fortran that are made by their precision, and must not be freed.
void fortran_type() {
  MPI_Datatype real = MPI_DATATYPE_NULL;
  MPI_Datatype three = MPI_DATATYPE_NULL;
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
  MPI_Type_contiguous(3, real, &three);
  MPI_Type_commit(&three);
  double values[3] = {rank + 1.0, rank + 2.0, rank + 3.0};
  MPI_Bcast(values, 1, three, 0, MPI_COMM_WORLD);
  require(values[0] == 1 && values[2] == 3, "the values of a type of Fortran");
  MPI_Type_free(&three);
}

/// Wrong arguments of one rank: MPI's class of errors, no write beyond a buffer, and no rank waits.
void bad_arguments() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const auto class_of = [](int code) {
    int result = MPI_SUCCESS;
    MPI_Error_class(code, &result);
    return result;
  };
  std::vector<int> values(64, 1);
  std::vector<int> received(64, 77);
  // the root receives less than its part
  const bool is_root = rank == 0;
  int code = MPI_Scatter(values.data(), 4, MPI_INT, received.data(), is_root ? 1 : 4, MPI_INT, 0, MPI_COMM_WORLD);
  if (is_root) require(class_of(code) != MPI_SUCCESS && received[1] == 77, "a scatter into a small buffer is refused");
  std::vector<int> counts(static_cast<std::size_t>(size), 1);
  const std::vector<int> places(static_cast<std::size_t>(size), 0);
  if (is_root) counts[0] = -1;
  code = MPI_Alltoallv(values.data(), counts.data(), places.data(), MPI_INT, received.data(), counts.data(),
                       places.data(), MPI_INT, MPI_COMM_WORLD);
  require(class_of(code) != MPI_SUCCESS, "a negative count is refused on all ranks");
  if (is_root) require(class_of(code) == MPI_ERR_COUNT, "a negative count gives MPI_ERR_COUNT");
  code = MPI_Allgather(values.data(), 1, is_root ? MPI_DATATYPE_NULL : MPI_INT, received.data(), 1, MPI_INT,
                       MPI_COMM_WORLD);
  require(class_of(code) != MPI_SUCCESS, "a null datatype is refused on all ranks");
  if (is_root) require(class_of(code) == MPI_ERR_TYPE, "a null datatype gives MPI_ERR_TYPE");
  // a type that cannot be unpacked: all other ranks have completed the call, and all make the same next one
  MPI_Datatype with_gaps = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, 2, MPI_INT, &with_gaps);
  if (rank != 1) MPI_Type_commit(&with_gaps);
  code = MPI_Bcast(values.data(), 1, with_gaps, 0, MPI_COMM_WORLD);
  require(rank == 1 || code == MPI_SUCCESS, "an error after the call stays on its rank");
  MPI_Type_free(&with_gaps);
  require(sum_of(1) == size, "the sum after errors");
}

/// A rank that has no memory for a call: all ranks get an error of this call, and make the same next call.
void no_memory() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  require(sum_of(1) == size, "the first sum");
  for (int allocations = 1;; ++allocations) {
    require(allocations < 1000, "a call needs few allocations");
    std::vector<int> values(static_cast<std::size_t>(allocations) + 1, 1);  // a call that has not been made yet
    const auto count = static_cast<int>(values.size());
    if (rank == 1) allocations_left = allocations;
    const int code = MPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    allocations_left = 0;
    require(code != MPI_SUCCESS || values.back() == size, "a sum is right or an error");
    if (sum_by_mpi(code == MPI_SUCCESS ? 1 : 0) != 0) {  // the memory was missing when the data moved, or not at all
      require(allocations > 1, "a rank had no memory for the call");
      return;
    }
    require(sum_of(allocations) == allocations * size, "the next sum");
  }
}

/// Whether a process of this host is stopped.
bool is_stopped(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // "12 (name) T ..."
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'T';
}

/// A rank stops in the middle of a call, so that some ranks complete it and others do not. The program ignores that. No
/// later call combines calls that are not the same, and a new communicator works.
void left_apart() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  constexpr int stopping = 7;
  const int own = getpid();
  std::vector<int> processes(static_cast<std::size_t>(size));
  MPI_Allgather(&own, 1, MPI_INT, processes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  if (rank == stopping) {
    // mostly far more time than the way into the call needs; there the rank sleeps until the others come
    std::signal(SIGALRM, [](int) { kill(getpid(), SIGSTOP); });
    const itimerval soon{{0, 0}, {2, 0}};
    setitimer(ITIMER_REAL, &soon, nullptr);
  } else {
    while (!is_stopped(processes[stopping])) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto call = [] {
    const int value = 1;
    int sum = 0;
    const int code = MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    require(code != MPI_SUCCESS || sum == size, "a sum is right or an error");
    return code == MPI_SUCCESS;
  };
  const bool is_complete = call();
  if (is_complete) require(!call(), "a rank is stopped");
  if (rank == 0) kill(processes[stopping], SIGCONT);
  const int complete = sum_by_mpi(is_complete ? 1 : 0);
  if (rank == 0) std::printf("%d of %d ranks completed the call\n", complete, size);
  const bool are_apart = complete != 0 && complete != size;
  for (int i = 0; i < 2; ++i) {
    require(call() != are_apart, "ranks at different calls get errors");
    sum_by_mpi(0);
  }
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  require(sum_of(1, copy) == size, "the sum on a new communicator");
  MPI_Comm_free(&copy);
}

/// Whether [block, block + bytes) is in lockstep's arena, which is a file of this name.
bool is_shared(void* block, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::size_t dash = 0;
    const auto first = std::stoull(line, &dash, 16);
    const auto last = std::stoull(line.substr(dash + 1), nullptr, 16);
    if (begin >= first && begin + bytes <= last) return line.find("lockstep-arena") != std::string::npos;
  }
  return false;
}

/// Whether `body` returns true in a child process.
template <class Body>
bool in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

std::vector<char> at_fork;

/// Frees a large block, and allocates another one.
void allocate_at_fork() { at_fork = std::vector<char>(100000 + at_fork.size() % 2, 'x'); }

/// The functions of the C library that allocate, with liblockstep_malloc.so.
void arena() {
  constexpr std::size_t large = 300000;
  volatile std::size_t too_large = SIZE_MAX - 100;  // volatile, so that the compiler does not warn
  auto* const block = static_cast<char*>(std::malloc(large));
  require(is_shared(block, large), "a large block of malloc is in the arena");
  require(malloc_usable_size(block) >= large, "its usable size is at least what was asked for");
  std::memset(block, 3, large);
  std::free(block);
  auto* const zeros = static_cast<char*>(std::calloc(large / 4, 4));
  require(is_shared(zeros, large), "a block of calloc is in the arena");
  require(std::all_of(zeros, zeros + large, [](char byte) { return byte == 0; }), "a block of calloc is zero");
  zeros[large - 2000] = 7;
  const auto place = reinterpret_cast<std::uintptr_t>(zeros);
  auto* const same = static_cast<char*>(std::realloc(zeros, large - 1000));
  require(reinterpret_cast<std::uintptr_t>(same) == place, "a block that shrinks a little stays where it is");
  auto* const more = static_cast<char*>(std::realloc(same, 4 * large));
  require(is_shared(more, 4 * large) && more[0] == 0 && more[large - 2000] == 7, "realloc keeps the contents");
  auto* const less = static_cast<char*>(std::realloc(more, 100));
  require(!is_shared(less, 100) && less[99] == 0, "realloc to a small block leaves the arena");
  std::memset(less, 5, 100);
  auto* const back = static_cast<char*>(std::realloc(less, large));
  require(is_shared(back, large) && back[0] == 5 && back[99] == 5, "realloc to a large block enters the arena");
  std::free(back);
  for (std::size_t alignment = 8; alignment <= (std::size_t{2} << 20); alignment *= 2) {
    void* aligned = nullptr;
    require(posix_memalign(&aligned, alignment, large) == 0, "posix_memalign");
    require(reinterpret_cast<std::uintptr_t>(aligned) % alignment == 0, "a block is aligned");
    require(is_shared(aligned, large) == (alignment <= 4096), "a block that is aligned to at most a page is shared");
    std::memset(aligned, 1, large);
    std::free(aligned);
  }
  void* none = nullptr;
  require(posix_memalign(&none, 24, large) == EINVAL, "an alignment that is not a power of two is refused");
  errno = 0;
  require(std::calloc(too_large / 2, 4) == nullptr && errno == ENOMEM, "calloc of too many bytes is refused");
  errno = 0;
  require(std::malloc(too_large) == nullptr && errno == ENOMEM, "malloc of too many bytes is refused");
  void* const small = std::malloc(1000);
  require(!is_shared(small, 1000), "a small block is not in the arena");
  std::free(small);

  std::vector<double> values(1 << 17, rank + 1.0);
  require(is_shared(values.data(), 8 * values.size()), "a vector is in the arena");
  std::vector<std::thread> threads;  // allocate beside the sums, and free what others have allocated
  std::vector<std::vector<int>> made(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&made, t] {
      for (int i = 1; i <= 200; ++i)
        made[static_cast<std::size_t>(t)] = std::vector<int>(static_cast<std::size_t>(i) * 1000, t);
    });
  }
  for (int i = 0; i < 20; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    require(values.front() == size && values.back() == size, "the maximum of vectors in the arena");
  }
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) require(made[static_cast<std::size_t>(t)].back() == t, "what a thread has made");

  void* const inherited = std::malloc(large);
  allocate_at_fork();
  const bool is_right = in_child([&] {
    values.assign(values.size(), -1.0);  // a copy
    std::vector<double> own(large, 2.0);
    std::free(inherited);
    return own.back() == 2.0 && !is_shared(own.data(), 8 * own.size()) &&
           in_child([&] { return values.front() == -1.0 && values.back() == -1.0; });
  });
  require(is_right, "child processes have memory of their own, with the contents of their parent");
  require(values.front() == size && values.back() == size, "a child process does not change memory of its parent");
  void* const again = std::malloc(large);
  require(is_shared(again, large), "after fork, the parent gets blocks of the arena");
  std::free(again);
  std::free(inherited);
}

/// Frees a block of the arena twice.
void freed_twice() {
  void* const block = std::malloc(300000);
  void* volatile same = block;
  std::free(block);
  std::free(same);
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
                                    {"roots-differ", roots_differ},
                                    {"forgotten", forgotten},
                                    {"stopped", stopped},
                                    {"killed", killed},
                                    {"errors-return", errors_return},
                                    {"communicators", many_communicators},
                                    {"kept-by-mpi", kept_by_mpi},
                                    {"pending-send", pending_send},
                                    {"threads", two_threads},
                                    {"late", late},
                                    {"read-only-scatter", read_only_scatter},
                                    {"fortran-type", fortran_type},
                                    {"bad-arguments", bad_arguments},
                                    {"no-memory", no_memory},
                                    {"left-apart", left_apart},
                                    {"arena", arena},
                                    {"freed-twice", freed_twice},
                                    {"loop", loop}};
  const std::string name = argc > 1 ? argv[1] : "";
  int level = 0;
  // handlers that are registered before those of lockstep run while its arena is locked
  if (name == "arena") pthread_atfork(allocate_at_fork, allocate_at_fork, allocate_at_fork);
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
