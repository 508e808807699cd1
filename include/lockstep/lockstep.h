// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives for C (C99 or newer) and, by their stable names and types, for other languages. README.md in interop/
// has examples, and the module for Fortran.
//
// Each function returns LOCKSTEP_SUCCESS or the code of an error. It also returns a code for an exception inside the
// library: no C++ exception leaves a function. After an error, lockstep_last_error_text and its neighbours describe it.
// Pass LOCKSTEP_HERE for the last two parameters `file` and `line` of a function: errors then name this line on all
// ranks. `file` must be a string with static storage duration, or NULL if the line is unknown.
//
// The functions are those of lockstep::Communicator (collectives/communicator.hpp), with the same rules and costs, for
// one replica per rank and tensors in host memory. A tensor is an address, a count of elements, and a dtype. An address
// may be NULL if the tensor has no elements, or if this rank does not use the tensor. Memory of lockstep_allocate is
// read and written in place by all ranks of the node; other memory is copied through shared memory.
//
// A wrong argument is LOCKSTEP_INVALID_ARGUMENT on the rank that passes it, and LOCKSTEP_UNAVAILABLE on the other ranks
// of the call, with the same text. Exception: if the communicator itself is NULL, the other ranks are not told, and
// they wait until their deadline.

#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define LOCKSTEP_C_API __attribute__((visibility("default")))
#define LOCKSTEP_C_CALL __attribute__((visibility("default"), warn_unused_result))
#else
#define LOCKSTEP_C_API
#define LOCKSTEP_C_CALL
#endif

/// The arguments `file` and `line` of a call.
#define LOCKSTEP_HERE __FILE__, __LINE__

/// Results of the functions. The numbers are fixed. lockstep::Code explains the errors.
enum lockstep_code {
  LOCKSTEP_SUCCESS = 0,
  LOCKSTEP_INVALID_ARGUMENT = 1,
  LOCKSTEP_FAILED_PRECONDITION = 2,
  LOCKSTEP_UNIMPLEMENTED = 3,
  LOCKSTEP_MISMATCH = 4,
  LOCKSTEP_DEADLINE_EXCEEDED = 5,
  LOCKSTEP_UNAVAILABLE = 6,
  LOCKSTEP_OUT_OF_RANGE = 7,
  LOCKSTEP_DATA_LOSS = 8,
  LOCKSTEP_INTERNAL = 9
};

/// Element types. The numbers are fixed, and differ from those of lockstep_op, so that exchanged arguments are errors.
enum lockstep_dtype {
  LOCKSTEP_F16 = 1,
  LOCKSTEP_BF16 = 2,
  LOCKSTEP_F32 = 3,
  LOCKSTEP_F64 = 4,
  LOCKSTEP_I8 = 5,
  LOCKSTEP_I16 = 6,
  LOCKSTEP_I32 = 7,
  LOCKSTEP_I64 = 8,
  LOCKSTEP_U8 = 9,
  LOCKSTEP_U16 = 10,
  LOCKSTEP_U32 = 11,
  LOCKSTEP_U64 = 12,
  LOCKSTEP_BOOL = 13
};

/// Reductions, with the meaning of lockstep::ReduceOp. The numbers are fixed.
enum lockstep_op {
  LOCKSTEP_SUM = 101,
  LOCKSTEP_MEAN = 102,
  LOCKSTEP_MIN = 103,
  LOCKSTEP_MAX = 104,
  LOCKSTEP_PROD = 105,
  LOCKSTEP_BAND = 106,
  LOCKSTEP_BOR = 107,
  LOCKSTEP_BXOR = 108
};

typedef struct lockstep_environment lockstep_environment;    ///< as lockstep::Environment
typedef struct lockstep_communicator lockstep_communicator;  ///< as lockstep::Communicator
typedef struct lockstep_request lockstep_request;            ///< as lockstep::Request

// ---- Errors

/// The last error of a function of this header on this thread: its text, the rank that caused it or -1, the name of the
/// operation or "", and the number of the operation or -1. A call that succeeds does not change them. A text is valid
/// until the next error on this thread. Local.
LOCKSTEP_C_API int lockstep_last_error_code(void);
LOCKSTEP_C_API const char* lockstep_last_error_text(void);
LOCKSTEP_C_API int lockstep_last_error_rank(void);
LOCKSTEP_C_API const char* lockstep_last_error_operation(void);
LOCKSTEP_C_API int64_t lockstep_last_error_sequence(void);
/// The name of a code: "success", "mismatch", ...; "unknown" for other numbers. Local.
LOCKSTEP_C_API const char* lockstep_code_name(int code);

// ---- Environment and memory

/// Creates an environment: see lockstep::Environment. A program that calls MPI_Init itself may omit it; then errors of
/// missing ranks are less precise, and MPI_Finalize has no deadline. The first of a process is collective over the job,
/// later ones are local.
LOCKSTEP_C_CALL int lockstep_environment_create(lockstep_environment** environment);
/// Destroys the environment, and sets `*environment` to NULL. The last of a process finalizes MPI, if lockstep
/// initialized MPI. Free all communicators before. The last one is collective over the job.
LOCKSTEP_C_API int lockstep_environment_free(lockstep_environment** environment);

/// Allocates memory in the arena (device/arena.hpp), aligned to 64 bytes. Local.
LOCKSTEP_C_CALL int lockstep_allocate(size_t bytes, void** memory);
/// Frees memory of lockstep_allocate, with the same number of bytes, which must not be in use by a request. NULL is
/// ignored. Local.
LOCKSTEP_C_API void lockstep_deallocate(void* memory, size_t bytes);

// ---- Communicators

/// Creates a communicator over all ranks of the job. MPI must be initialized. `name` is shown in errors; NULL means
/// "world". `fail_after_ms` is CommunicatorOptions::fail_after in ms; 0 means its default. Collective over the job.
LOCKSTEP_C_CALL int lockstep_world(const char* name, int64_t fail_after_ms, lockstep_communicator** communicator);
/// Creates a communicator over the ranks of an MPI communicator, which is duplicated. The program includes mpi.h.
/// Collective over `comm`. Parameters: MPI_Comm comm, then those of lockstep_world, with the default name
/// "communicator".
#define lockstep_communicator_from(comm, name, fail_after_ms, communicator) \
  lockstep_communicator_from_fortran((int)MPI_Comm_c2f(comm), name, fail_after_ms, communicator)
/// As lockstep_communicator_from, with the integer handle of Fortran (MPI_Comm_c2f; MPI_VAL in mpi_f08). So programs do
/// not depend on the type of MPI_Comm, which differs between MPI libraries.
LOCKSTEP_C_CALL int lockstep_communicator_from_fortran(int handle, const char* name, int64_t fail_after_ms,
                                                       lockstep_communicator** communicator);
/// Divides the ranks into groups, as Communicator::split: ranks with one `color` form a group, ordered by `key`. A rank
/// with a negative color gets NULL. Collective.
LOCKSTEP_C_CALL int lockstep_split(const lockstep_communicator* communicator, int color, int key, const char* name,
                                   lockstep_communicator** part, const char* file, int line);
/// Destroys the communicator, and sets `*communicator` to NULL. If `*communicator` is NULL, does nothing. Local, but no
/// other rank can complete a call afterwards.
LOCKSTEP_C_API int lockstep_communicator_free(lockstep_communicator** communicator);
/// Local.
LOCKSTEP_C_CALL int lockstep_rank(const lockstep_communicator* communicator, int* rank);
LOCKSTEP_C_CALL int lockstep_size(const lockstep_communicator* communicator, int* size);

// ---- Reductions. `input` and `output` may be the same address. The mean of integers has an output of LOCKSTEP_F64, in
// ---- other memory than the input.

/// Writes the reduction of all inputs of `count` elements to every output. Collective.
LOCKSTEP_C_CALL int lockstep_all_reduce(const lockstep_communicator* communicator, const void* input, void* output,
                                        int64_t count, int dtype, int op, const char* file, int line);
/// As lockstep_all_reduce, but returns at once. The tensors must stay valid until the request is complete. After an
/// error, `*request` is NULL.
LOCKSTEP_C_CALL int lockstep_all_reduce_async(const lockstep_communicator* communicator, const void* input,
                                              void* output, int64_t count, int dtype, int op,
                                              lockstep_request** request, const char* file, int line);
/// As lockstep_all_reduce, with an output on rank `root` only.
LOCKSTEP_C_CALL int lockstep_reduce(const lockstep_communicator* communicator, const void* input, void* output,
                                    int64_t count, int dtype, int op, int root, const char* file, int line);
/// Reduces inputs of size * `count` elements; rank r gets part r, of `count` elements. Collective.
LOCKSTEP_C_CALL int lockstep_reduce_scatter(const lockstep_communicator* communicator, const void* input, void* output,
                                            int64_t count, int dtype, int op, const char* file, int line);

/// Writes the sum of x[i] * y[i] over the elements of all ranks to `*result`, with the same bits for every number of
/// ranks and every distribution. `x` and `y` are the `count` elements of this rank, LOCKSTEP_F32 or LOCKSTEP_F64, from
/// global index `offset` on. With y = x it is the square of the norm. See lockstep::reproducible::dot. Collective.
LOCKSTEP_C_CALL int lockstep_reproducible_dot(const lockstep_communicator* communicator, const void* x, const void* y,
                                              int64_t count, int dtype, int64_t offset, double* result,
                                              const char* file, int line);
/// As above, the sum of x[i].
LOCKSTEP_C_CALL int lockstep_reproducible_sum(const lockstep_communicator* communicator, const void* x, int64_t count,
                                              int dtype, int64_t offset, double* result, const char* file, int line);

// ---- Requests

/// Waits until the operation is complete, frees the request, also after an error, and sets `*request` to NULL. Returns
/// the error of the operation. If `*request` is NULL, returns LOCKSTEP_SUCCESS. Local.
LOCKSTEP_C_CALL int lockstep_wait(lockstep_request** request);
/// Advances the operation without waiting. If it is complete or has failed, sets `*is_complete` to 1, and frees the
/// request as lockstep_wait does; otherwise sets `*is_complete` to 0. Local.
LOCKSTEP_C_CALL int lockstep_test(lockstep_request** request, int* is_complete);

// ---- Other collectives. Counts are numbers of elements.

/// Copies `values` of rank `root` to all ranks. Collective.
LOCKSTEP_C_CALL int lockstep_broadcast(const lockstep_communicator* communicator, void* values, int64_t count,
                                       int dtype, int root, const char* file, int line);
/// Writes the inputs of all ranks, each of `count` elements, to every output, in the order of ranks. Collective.
LOCKSTEP_C_CALL int lockstep_all_gather(const lockstep_communicator* communicator, const void* input, void* output,
                                        int64_t count, int dtype, const char* file, int line);
/// As lockstep_all_gather; the input of rank r has `counts[r]` elements. `counts` is equal on all ranks.
LOCKSTEP_C_CALL int lockstep_all_gather_v(const lockstep_communicator* communicator, const void* input, void* output,
                                          const int64_t* counts, int dtype, const char* file, int line);
/// As lockstep_all_gather and lockstep_all_gather_v, with an output on rank `root` only.
LOCKSTEP_C_CALL int lockstep_gather(const lockstep_communicator* communicator, const void* input, void* output,
                                    int64_t count, int dtype, int root, const char* file, int line);
LOCKSTEP_C_CALL int lockstep_gather_v(const lockstep_communicator* communicator, const void* input, void* output,
                                      const int64_t* counts, int dtype, int root, const char* file, int line);
/// Divides the input of rank `root`, of size * `count` elements: rank r gets part r, of `count` elements. Collective.
LOCKSTEP_C_CALL int lockstep_scatter(const lockstep_communicator* communicator, const void* input, void* output,
                                     int64_t count, int dtype, int root, const char* file, int line);
/// As lockstep_scatter; part r has `counts[r]` elements. `counts` is equal on all ranks.
LOCKSTEP_C_CALL int lockstep_scatter_v(const lockstep_communicator* communicator, const void* input, void* output,
                                       const int64_t* counts, int dtype, int root, const char* file, int line);
/// Rank r sends part s of its input to rank s, which gets it as part r of its output. Each part has `count` elements.
/// Collective.
LOCKSTEP_C_CALL int lockstep_all_to_all(const lockstep_communicator* communicator, const void* input, void* output,
                                        int64_t count, int dtype, const char* file, int line);
/// As lockstep_all_to_all: this rank sends `send_counts[s]` elements to rank s, and receives `receive_counts[r]`
/// elements from rank r. Errors of numbers that differ between two ranks call them send_rows and receive_rows.
LOCKSTEP_C_CALL int lockstep_all_to_all_v(const lockstep_communicator* communicator, const void* input, void* output,
                                          const int64_t* send_counts, const int64_t* receive_counts, int dtype,
                                          const char* file, int line);
/// Returns when every rank has called it. Collective.
LOCKSTEP_C_CALL int lockstep_barrier(const lockstep_communicator* communicator, const char* file, int line);

/// Sends `values` to rank `target`, which calls lockstep_recv with the same count and dtype. Messages of a pair of
/// ranks match in order, independently of collectives.
LOCKSTEP_C_CALL int lockstep_send(const lockstep_communicator* communicator, const void* values, int64_t count,
                                  int dtype, int target, const char* file, int line);
LOCKSTEP_C_CALL int lockstep_recv(const lockstep_communicator* communicator, void* values, int64_t count, int dtype,
                                  int source, const char* file, int line);

// ---- After a failure

/// Number of operations that this rank has completed. Local.
LOCKSTEP_C_CALL int lockstep_completed_operations(const lockstep_communicator* communicator, int64_t* completed);
/// Writes the number of operations that all ranks have completed to `*completed`, and continues there on all ranks: see
/// Communicator::recover. Collective.
LOCKSTEP_C_CALL int lockstep_recover(const lockstep_communicator* communicator, int64_t* completed, const char* file,
                                     int line);
/// Makes the current or next operation of every other rank fail with LOCKSTEP_UNAVAILABLE and `text`. Local.
LOCKSTEP_C_CALL int lockstep_abort(const lockstep_communicator* communicator, const char* text, const char* file,
                                   int line);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // LOCKSTEP_LOCKSTEP_H
