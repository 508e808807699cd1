/* SPDX-FileCopyrightText: The lockstep authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the libraries of the drop-in: liblockstep_mpi.so and liblockstep_malloc.so, which programs
 * preload, and liblockstep_drop_in.so, which the former opens in MPI_Init. In C, because what is preloaded must not need
 * a C++ runtime. */

#ifndef LOCKSTEP_DROP_IN_CALLS_H
#define LOCKSTEP_DROP_IN_CALLS_H

#include <mpi.h>
#include <stddef.h>

/* The collectives that the drop-in can take over: DO(name without prefix, parameters, arguments). */
/* clang-format off */
#define LOCKSTEP_EACH_CALL(DO) \
  DO(Allreduce, (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
     (in, out, count, type, op, comm)) \
  DO(Reduce, (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm), \
     (in, out, count, type, op, root, comm)) \
  DO(Reduce_scatter, (const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
     (in, out, counts, type, op, comm)) \
  DO(Reduce_scatter_block, (const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
     (in, out, count, type, op, comm)) \
  DO(Bcast, (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm), (data, count, type, root, comm)) \
  DO(Allgather, (const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, \
                 MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, comm)) \
  DO(Allgatherv, (const void* in, int in_count, MPI_Datatype in_type, void* out, const int out_counts[], \
                  const int places[], MPI_Datatype out_type, MPI_Comm comm), \
     (in, in_count, in_type, out, out_counts, places, out_type, comm)) \
  DO(Gather, (const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, \
              int root, MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, root, comm)) \
  DO(Gatherv, (const void* in, int in_count, MPI_Datatype in_type, void* out, const int out_counts[], \
               const int places[], MPI_Datatype out_type, int root, MPI_Comm comm), \
     (in, in_count, in_type, out, out_counts, places, out_type, root, comm)) \
  DO(Scatter, (const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, \
               int root, MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, root, comm)) \
  DO(Scatterv, (const void* in, const int in_counts[], const int places[], MPI_Datatype in_type, void* out, \
                int out_count, MPI_Datatype out_type, int root, MPI_Comm comm), \
     (in, in_counts, places, in_type, out, out_count, out_type, root, comm)) \
  DO(Alltoall, (const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, \
                MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, comm)) \
  DO(Alltoallv, (const void* in, const int in_counts[], const int in_places[], MPI_Datatype in_type, void* out, \
                 const int out_counts[], const int out_places[], MPI_Datatype out_type, MPI_Comm comm), \
     (in, in_counts, in_places, in_type, out, out_counts, out_places, out_type, comm)) \
  DO(Barrier, (MPI_Comm comm), (comm))
/* clang-format on */

/* One function for each collective. */
struct lockstep_calls {
#define LOCKSTEP_MEMBER(name, parameters, arguments) int(*name) parameters; /* NOLINT(bugprone-macro-parentheses) */
  LOCKSTEP_EACH_CALL(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

/* What the preloaded library calls after the start. */
struct lockstep_drop_in {
  struct lockstep_calls calls;
  void (*before_finalize)(void); /* in MPI_Finalize, before that of the MPI library */
  void (*after_finalize)(void);
};

/* The arena of lockstep, for liblockstep_malloc.so, whose function lockstep_malloc_use takes it. */
struct lockstep_arena {
  void* (*allocate)(size_t bytes);                /* a block, aligned to 64 bytes; NULL if the arena is full */
  void (*deallocate)(void* block, size_t bytes);  /* frees a block from `allocate(bytes)` */
  int (*contains)(const void* address);
};
typedef void lockstep_malloc_use_function(const struct lockstep_arena* arena); /* `arena` exists until the process ends */

/* The environment variable LOCKSTEP_MPI. */
enum lockstep_drop_in_mode { LOCKSTEP_MPI_OFF, LOCKSTEP_MPI_REPORT, LOCKSTEP_MPI_ON };

/* Exported by liblockstep_drop_in.so. Both functions are called once, by the thread that initializes MPI.
 * lockstep_drop_in_check: local. Returns NULL if this library can serve the process, otherwise the reason, a static
 * text.
 * lockstep_drop_in_start: collective over MPI_COMM_WORLD. `real` are the collectives of the MPI library, and exist
 * until the process ends. Fills `made`, which the preloaded library uses from then on. Ends the job after an error. */
typedef const char* lockstep_drop_in_check_function(void);
typedef void lockstep_drop_in_start_function(const struct lockstep_calls* real, enum lockstep_drop_in_mode mode,
                                             struct lockstep_drop_in* made);

#endif
