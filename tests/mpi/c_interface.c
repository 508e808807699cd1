// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every function of the interface for C, on any number of ranks. Prints a line for each check that fails; exits with 1
// if there is one.

#include <lockstep/lockstep.h>

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8, N = 5 };

static int rank, size;
static int checks, failures;

static void check(int holds, const char* what, int line) {
  ++checks;
  if (holds) return;
  ++failures;
  printf("rank %d of %d: line %d: %s does not hold; last error: %s\n", rank, size, line, what,
         lockstep_last_error_text());
}
#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
#define CHECK_OK(call) check((call) == LOCKSTEP_SUCCESS, #call, __LINE__)

/// The last error has this code, and its text contains `part`.
static void check_error(int code, int expected, const char* part, int line) {
  check(code == expected && lockstep_last_error_code() == expected, lockstep_code_name(expected), line);
  check(strstr(lockstep_last_error_text(), part) != NULL, part, line);
}
#define CHECK_ERROR(call, code, part) check_error((call), (code), (part), __LINE__)

/// The sum of the ranks 0 to size - 1.
static int sum_of_ranks(void) { return size * (size - 1) / 2; }

static void test_reproducible_sums(const lockstep_communicator* world) {
  const double x[3] = {1, 2, 3};
  const float y[3] = {1, 2, 3};
  const int64_t offset = 3 * (int64_t)rank;
  double result = 0;
  CHECK_OK(lockstep_reproducible_dot(world, x, x, 3, LOCKSTEP_F64, offset, &result, LOCKSTEP_HERE));
  CHECK(result == 14.0 * size);
  CHECK_OK(lockstep_reproducible_dot(world, y, y, 3, LOCKSTEP_F32, offset, &result, LOCKSTEP_HERE));
  CHECK(result == 14.0 * size);
  CHECK_OK(lockstep_reproducible_sum(world, x, 3, LOCKSTEP_F64, offset, &result, LOCKSTEP_HERE));
  CHECK(result == 6.0 * size);
}

static void test_reductions(const lockstep_communicator* world) {
  float input[N], output[N];
  for (int i = 0; i < N; ++i) input[i] = (float)(rank + i);
  CHECK_OK(lockstep_all_reduce(world, input, output, N, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE));
  for (int i = 0; i < N; ++i) CHECK(output[i] == (float)(sum_of_ranks() + size * i));
  CHECK_OK(lockstep_all_reduce(world, input, input, N, LOCKSTEP_F32, LOCKSTEP_MAX, LOCKSTEP_HERE));
  for (int i = 0; i < N; ++i) CHECK(input[i] == (float)(size - 1 + i));

  int32_t id = rank;
  double mean = -1;
  CHECK_OK(lockstep_all_reduce(world, &id, &mean, 1, LOCKSTEP_I32, LOCKSTEP_MEAN, LOCKSTEP_HERE));
  CHECK(mean == (double)sum_of_ranks() / size);

  uint16_t one = 0x3C00, ones = 0;  // 1.0 as f16
  CHECK_OK(lockstep_all_reduce(world, &one, &ones, 1, LOCKSTEP_F16, LOCKSTEP_PROD, LOCKSTEP_HERE));
  CHECK(ones == 0x3C00);

  int64_t total = -1;
  const int64_t own = rank + 1;
  const int root = size - 1;
  CHECK_OK(
      lockstep_reduce(world, &own, rank == root ? &total : NULL, 1, LOCKSTEP_I64, LOCKSTEP_SUM, root, LOCKSTEP_HERE));
  CHECK(total == (rank == root ? sum_of_ranks() + size : -1));

  double parts[2 * MOST_RANKS], part[2] = {-1, -1};
  for (int i = 0; i < 2 * size; ++i) parts[i] = i;
  CHECK_OK(lockstep_reduce_scatter(world, parts, part, 2, LOCKSTEP_F64, LOCKSTEP_SUM, LOCKSTEP_HERE));
  CHECK(part[0] == size * 2 * rank && part[1] == size * (2 * rank + 1));

  CHECK_OK(lockstep_all_reduce(world, NULL, NULL, 0, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE));
}

static void test_requests(const lockstep_communicator* world) {
  double first = rank, second = 1;
  lockstep_request* requests[2] = {NULL, NULL};
  CHECK_OK(
      lockstep_all_reduce_async(world, &first, &first, 1, LOCKSTEP_F64, LOCKSTEP_SUM, &requests[0], LOCKSTEP_HERE));
  CHECK_OK(
      lockstep_all_reduce_async(world, &second, &second, 1, LOCKSTEP_F64, LOCKSTEP_SUM, &requests[1], LOCKSTEP_HERE));
  CHECK(requests[0] != NULL && requests[1] != NULL);
  CHECK_OK(lockstep_wait(&requests[0]));
  CHECK(first == sum_of_ranks() && requests[0] == NULL);
  CHECK_OK(lockstep_wait(&requests[0]));  // complete already
  int is_complete = 0;
  while (!is_complete) CHECK_OK(lockstep_test(&requests[1], &is_complete));
  CHECK(second == size && requests[1] == NULL);
  CHECK_OK(lockstep_test(&requests[1], &is_complete));
  CHECK(is_complete == 1);
}

static void test_copies(const lockstep_communicator* world) {
  const int root = size - 1;
  int32_t values[3] = {-1, -1, -1};
  for (int i = 0; i < 3 && rank == root; ++i) values[i] = 7 * i;
  CHECK_OK(lockstep_broadcast(world, values, 3, LOCKSTEP_I32, root, LOCKSTEP_HERE));
  CHECK(values[0] == 0 && values[1] == 7 && values[2] == 14);

  int64_t pair[2], pairs[2 * MOST_RANKS];
  pair[0] = rank;
  pair[1] = -rank;
  CHECK_OK(lockstep_all_gather(world, pair, pairs, 2, LOCKSTEP_I64, LOCKSTEP_HERE));
  for (int r = 0; r < size; ++r) CHECK(pairs[2 * r] == r && pairs[2 * r + 1] == -r);
  memset(pairs, 0, sizeof(pairs));
  CHECK_OK(lockstep_gather(world, pair, rank == root ? pairs : NULL, 2, LOCKSTEP_I64, root, LOCKSTEP_HERE));
  for (int r = 0; r < size; ++r) CHECK(pairs[2 * r + 1] == (rank == root ? -r : 0));
  CHECK_OK(lockstep_scatter(world, rank == root ? pairs : NULL, pair, 2, LOCKSTEP_I64, root, LOCKSTEP_HERE));
  CHECK(pair[0] == rank && pair[1] == -rank);

  double sent[MOST_RANKS], received[MOST_RANKS];
  for (int s = 0; s < size; ++s) sent[s] = 10 * rank + s;
  CHECK_OK(lockstep_all_to_all(world, sent, received, 1, LOCKSTEP_F64, LOCKSTEP_HERE));
  for (int r = 0; r < size; ++r) CHECK(received[r] == 10 * r + rank);
  CHECK_OK(lockstep_barrier(world, LOCKSTEP_HERE));
}

/// Rank r has r + 1 elements.
static void test_uneven_copies(const lockstep_communicator* world) {
  int64_t counts[MOST_RANKS], all = 0;
  for (int r = 0; r < size; ++r) all += counts[r] = r + 1;
  uint8_t own[MOST_RANKS], whole[MOST_RANKS * MOST_RANKS];
  memset(own, 'a' + rank, sizeof(own));
  memset(whole, 0, sizeof(whole));
  CHECK_OK(lockstep_all_gather_v(world, own, whole, counts, LOCKSTEP_U8, LOCKSTEP_HERE));
  CHECK(whole[0] == 'a' && whole[all - 1] == 'a' + size - 1 && whole[all] == 0);
  memset(whole, 0, sizeof(whole));
  CHECK_OK(lockstep_gather_v(world, own, rank == 0 ? whole : NULL, counts, LOCKSTEP_U8, 0, LOCKSTEP_HERE));
  CHECK(whole[all - 1] == (rank == 0 ? 'a' + size - 1 : 0));
  memset(own, 0, sizeof(own));
  CHECK_OK(lockstep_scatter_v(world, rank == 0 ? whole : NULL, own, counts, LOCKSTEP_U8, 0, LOCKSTEP_HERE));
  for (int i = 0; i <= rank; ++i) CHECK(own[i] == 'a' + rank);

  // rank r sends s + 1 elements to each rank s
  int64_t receive_counts[MOST_RANKS];
  int32_t sent[MOST_RANKS * MOST_RANKS], received[MOST_RANKS * MOST_RANKS];
  for (int r = 0; r < size; ++r) receive_counts[r] = rank + 1;
  for (int i = 0; i < all; ++i) sent[i] = 100 * rank + i;
  CHECK_OK(lockstep_all_to_all_v(world, sent, received, counts, receive_counts, LOCKSTEP_I32, LOCKSTEP_HERE));
  for (int r = 0; r < size; ++r) CHECK(received[r * (rank + 1)] == 100 * r + rank * (rank + 1) / 2);
}

static void test_messages(const lockstep_communicator* world) {
  if (size == 1) return;
  float value = 4.5F + (float)rank;
  if (rank == 0) CHECK_OK(lockstep_send(world, &value, 1, LOCKSTEP_F32, 1, LOCKSTEP_HERE));
  if (rank == 1) CHECK_OK(lockstep_recv(world, &value, 1, LOCKSTEP_F32, 0, LOCKSTEP_HERE));
  CHECK(value == (rank < 2 ? 4.5F : 4.5F + (float)rank));
  // an argument that is wrong on the sender: the receiver gets the text
  if (rank == 0) {
    CHECK_ERROR(lockstep_send(world, &value, -1, LOCKSTEP_F32, 1, LOCKSTEP_HERE), LOCKSTEP_INVALID_ARGUMENT,
                "send: count is -1; it must not be negative");
  }
  if (rank == 1) {
    CHECK_ERROR(lockstep_recv(world, &value, 1, LOCKSTEP_F32, 0, LOCKSTEP_HERE), LOCKSTEP_UNAVAILABLE,
                "send: count is -1; it must not be negative");
  }
  CHECK_OK(lockstep_barrier(world, LOCKSTEP_HERE));
}

static void test_parts(const lockstep_communicator* world) {
  lockstep_communicator* part = NULL;
  CHECK_OK(lockstep_split(world, rank % 2, -rank, "halves", &part, LOCKSTEP_HERE));
  int part_rank = -1, part_size = -1;
  CHECK_OK(lockstep_size(part, &part_size));
  CHECK(part_size == (size + 1 - rank % 2) / 2);
  CHECK_OK(lockstep_rank(part, &part_rank));
  CHECK(part_rank == part_size - 1 - rank / 2);
  CHECK_OK(lockstep_communicator_free(&part));
  CHECK(part == NULL);
  CHECK_OK(lockstep_split(world, rank == 0 ? 0 : -1, 0, NULL, &part, LOCKSTEP_HERE));
  CHECK((part != NULL) == (rank == 0));
  CHECK_OK(lockstep_communicator_free(&part));

  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  CHECK_OK(lockstep_communicator_from(reversed, "reversed", 5000, &part));
  CHECK_OK(lockstep_rank(part, &part_rank));
  CHECK(part_rank == size - 1 - rank);
  CHECK_OK(lockstep_communicator_free(&part));
  MPI_Comm_free(&reversed);
  CHECK_ERROR(lockstep_communicator_from(MPI_COMM_NULL, NULL, 0, &part), LOCKSTEP_INVALID_ARGUMENT,
              "communicator_from: comm is MPI_COMM_NULL");
  CHECK_ERROR(lockstep_world(NULL, -5, &part), LOCKSTEP_INVALID_ARGUMENT, "fail_after_ms is -5");
}

static void test_memory(const lockstep_communicator* world) {
  void* memory = NULL;
  const size_t bytes = 4096 * sizeof(float);
  CHECK_OK(lockstep_allocate(bytes, &memory));
  CHECK(memory != NULL && (size_t)memory % 64 == 0);
  float* const values = memory;
  for (int i = 0; i < 4096; ++i) values[i] = 1;
  CHECK_OK(lockstep_all_reduce(world, values, values, 4096, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE));
  CHECK(values[0] == (float)size && values[4095] == (float)size);
  lockstep_deallocate(memory, bytes);
  lockstep_deallocate(NULL, 0);
  CHECK_ERROR(lockstep_allocate(1, NULL), LOCKSTEP_INVALID_ARGUMENT, "allocate: memory is NULL");
  CHECK_ERROR(lockstep_allocate((size_t)-1 / 2, &memory), LOCKSTEP_UNAVAILABLE, "out of memory");
  CHECK(memory == NULL);
}

/// Arguments that are wrong on all ranks: each rank gets its own error, or that of a rank that was earlier.
static void check_refused(const lockstep_communicator* world, int code, const char* part, int line) {
  check(code == LOCKSTEP_INVALID_ARGUMENT || (size > 1 && code == LOCKSTEP_UNAVAILABLE), "an error", line);
  check(strstr(lockstep_last_error_text(), part) != NULL, part, line);
  int64_t completed = -1;
  check(lockstep_recover(world, &completed, LOCKSTEP_HERE) == LOCKSTEP_SUCCESS && completed >= 0, "recover", line);
}
#define CHECK_REFUSED(call, part) check_refused(world, (call), (part), __LINE__)

static void test_arguments(const lockstep_communicator* world) {
  float x = 1, y = 1;
  int64_t counts[MOST_RANKS] = {0};
  CHECK_REFUSED(lockstep_all_reduce(world, &x, &y, -3, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE),
                "all_reduce: count is -3; it must not be negative");
  CHECK_REFUSED(lockstep_all_reduce(world, NULL, &y, 1, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE), "null");
  CHECK_REFUSED(lockstep_all_reduce(world, &x, NULL, 1, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE), "output");
  CHECK_REFUSED(lockstep_all_reduce(world, &x, &y, 1, LOCKSTEP_SUM, LOCKSTEP_F32, LOCKSTEP_HERE),
                "dtype is 101, which is not a lockstep_dtype");
  CHECK_REFUSED(lockstep_all_reduce(world, &x, &y, 1, LOCKSTEP_F32, 0, LOCKSTEP_HERE),
                "op is 0, which is not a lockstep_op");
  CHECK_REFUSED(lockstep_all_reduce(world, &x, &y, 1, LOCKSTEP_F32, LOCKSTEP_BXOR, LOCKSTEP_HERE), "bxor");
  int64_t whole = 1;
  CHECK_REFUSED(lockstep_all_reduce(world, &whole, &whole, 1, LOCKSTEP_I64, LOCKSTEP_MEAN, LOCKSTEP_HERE),
                "output is the memory of input, but the mean of i64 is f64");
  CHECK_REFUSED(lockstep_broadcast(world, &x, 1, LOCKSTEP_F32, size, LOCKSTEP_HERE), "root is ");
  CHECK_REFUSED(lockstep_all_gather(world, &x, &y, INT64_MAX, LOCKSTEP_F32, LOCKSTEP_HERE),
                "count is 9223372036854775807");
  CHECK_REFUSED(lockstep_all_gather_v(world, &x, &y, NULL, LOCKSTEP_F32, LOCKSTEP_HERE), "counts is NULL");
  counts[0] = -2;
  CHECK_REFUSED(lockstep_scatter_v(world, &x, &y, counts, LOCKSTEP_F32, 0, LOCKSTEP_HERE), "counts[0] is -2");
  CHECK_REFUSED(lockstep_all_reduce_async(world, &x, &y, 1, LOCKSTEP_F32, LOCKSTEP_SUM, NULL, LOCKSTEP_HERE),
                "request is NULL");

  CHECK_ERROR(lockstep_barrier(NULL, LOCKSTEP_HERE), LOCKSTEP_INVALID_ARGUMENT, "barrier: communicator is NULL");
  CHECK_ERROR(lockstep_rank(world, NULL), LOCKSTEP_INVALID_ARGUMENT, "rank: rank is NULL");
  CHECK_ERROR(lockstep_wait(NULL), LOCKSTEP_INVALID_ARGUMENT, "wait: request is NULL");
  CHECK_ERROR(lockstep_abort(world, NULL, LOCKSTEP_HERE), LOCKSTEP_INVALID_ARGUMENT, "abort: text is NULL");
  CHECK_ERROR(lockstep_communicator_free(NULL), LOCKSTEP_INVALID_ARGUMENT, "communicator is NULL");
}

/// A mismatch has one text on all ranks, which names the lines of both calls.
static void test_mismatch(const lockstep_communicator* world) {
  if (size == 1) return;
  float x[2] = {0, 0};
  char first[64], second[64];
  int code = LOCKSTEP_SUCCESS;
  sprintf(first, "mpi/c_interface.c:%d", __LINE__ + 1);
  if (rank != 1) code = lockstep_all_reduce(world, x, x, 2, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE);
  sprintf(second, "mpi/c_interface.c:%d", __LINE__ + 1);
  if (rank == 1) code = lockstep_broadcast(world, x, 1, LOCKSTEP_F32, 0, LOCKSTEP_HERE);
  CHECK_ERROR(code, LOCKSTEP_MISMATCH, first);
  CHECK_ERROR(code, LOCKSTEP_MISMATCH, second);
  CHECK(lockstep_last_error_sequence() >= 0);

  // an argument that is wrong on one rank: the others get the text, and the line
  code = lockstep_all_reduce(world, x, x, rank == 1 ? -7 : 2, LOCKSTEP_F32, LOCKSTEP_SUM, LOCKSTEP_HERE);
  CHECK_ERROR(code, rank == 1 ? LOCKSTEP_INVALID_ARGUMENT : LOCKSTEP_UNAVAILABLE, "count is -7");
  CHECK(rank == 1 || strstr(lockstep_last_error_text(), "mpi/c_interface.c:") != NULL);
  CHECK(lockstep_last_error_rank() == 1);
  CHECK(rank != 1 || strcmp(lockstep_last_error_operation(), "all_reduce") == 0);

  if (rank == 0) CHECK_OK(lockstep_abort(world, "no more data", LOCKSTEP_HERE));
  if (rank != 0) CHECK_ERROR(lockstep_barrier(world, LOCKSTEP_HERE), LOCKSTEP_UNAVAILABLE, "no more data");
  int64_t recovered = -1, completed = -1;
  CHECK_OK(lockstep_recover(world, &recovered, LOCKSTEP_HERE));
  CHECK_OK(lockstep_completed_operations(world, &completed));
  CHECK(recovered == completed);
  CHECK_OK(lockstep_barrier(world, LOCKSTEP_HERE));
}

int main(void) {
  lockstep_environment* environment = NULL;
  lockstep_communicator* world = NULL;
  CHECK(strcmp(lockstep_last_error_text(), "") == 0 && lockstep_last_error_rank() == -1);
  CHECK_OK(lockstep_environment_create(&environment));
  CHECK_ERROR(lockstep_environment_create(NULL), LOCKSTEP_INVALID_ARGUMENT, "environment is NULL");
  CHECK_OK(lockstep_world(NULL, 0, &world));
  CHECK_OK(lockstep_rank(world, &rank));
  CHECK_OK(lockstep_size(world, &size));
  if (failures == 0 && size <= MOST_RANKS) {
    test_reductions(world);
    test_reproducible_sums(world);
    test_requests(world);
    test_copies(world);
    test_uneven_copies(world);
    test_messages(world);
    test_parts(world);
    test_memory(world);
    test_arguments(world);
    test_mismatch(world);
  }
  CHECK(strcmp(lockstep_code_name(LOCKSTEP_DEADLINE_EXCEEDED), "deadline_exceeded") == 0);
  CHECK(strcmp(lockstep_code_name(0), "success") == 0 && strcmp(lockstep_code_name(10), "unknown") == 0);
  CHECK_OK(lockstep_communicator_free(&world));
  CHECK_OK(lockstep_environment_free(&environment));
  if (rank == 0) printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 && checks > 100 ? EXIT_SUCCESS : EXIT_FAILURE;
}
