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

/* The collectives that the drop-in can take over: DO(name without prefix, parameters, arguments). `suffix` is empty and
 * `Count` and `Place` are int, or, for the functions with large counts of MPI 4, _c, MPI_Count and MPI_Aint. */
/* clang-format off */
#define LOCKSTEP_CALLS_WITH_COUNTS(DO, suffix, Count, Place) \
  DO(Allreduce##suffix, (const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
     (in, out, count, type, op, comm)) \
  DO(Reduce##suffix, (const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm), \
     (in, out, count, type, op, root, comm)) \
  DO(Reduce_scatter##suffix, (const void* in, void* out, const Count counts[], MPI_Datatype type, MPI_Op op, \
                              MPI_Comm comm), \
     (in, out, counts, type, op, comm)) \
  DO(Reduce_scatter_block##suffix, (const void* in, void* out, Count count, MPI_Datatype type, MPI_Op op, \
                                    MPI_Comm comm), \
     (in, out, count, type, op, comm)) \
  DO(Bcast##suffix, (void* data, Count count, MPI_Datatype type, int root, MPI_Comm comm), \
     (data, count, type, root, comm)) \
  DO(Allgather##suffix, (const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, \
                         MPI_Datatype out_type, MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, comm)) \
  DO(Allgatherv##suffix, (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count out_counts[], \
                          const Place places[], MPI_Datatype out_type, MPI_Comm comm), \
     (in, in_count, in_type, out, out_counts, places, out_type, comm)) \
  DO(Gather##suffix, (const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, \
                      MPI_Datatype out_type, int root, MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, root, comm)) \
  DO(Gatherv##suffix, (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count out_counts[], \
                       const Place places[], MPI_Datatype out_type, int root, MPI_Comm comm), \
     (in, in_count, in_type, out, out_counts, places, out_type, root, comm)) \
  DO(Scatter##suffix, (const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, \
                       MPI_Datatype out_type, int root, MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, root, comm)) \
  DO(Scatterv##suffix, (const void* in, const Count in_counts[], const Place places[], MPI_Datatype in_type, \
                        void* out, Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm), \
     (in, in_counts, places, in_type, out, out_count, out_type, root, comm)) \
  DO(Alltoall##suffix, (const void* in, Count in_count, MPI_Datatype in_type, void* out, Count out_count, \
                        MPI_Datatype out_type, MPI_Comm comm), \
     (in, in_count, in_type, out, out_count, out_type, comm)) \
  DO(Alltoallv##suffix, (const void* in, const Count in_counts[], const Place in_places[], MPI_Datatype in_type, \
                         void* out, const Count out_counts[], const Place out_places[], MPI_Datatype out_type, \
                         MPI_Comm comm), \
     (in, in_counts, in_places, in_type, out, out_counts, out_places, out_type, comm))

/* One per operation. */
#define LOCKSTEP_EACH_OPERATION(DO) \
  LOCKSTEP_CALLS_WITH_COUNTS(DO, , int, int) \
  DO(Barrier, (MPI_Comm comm), (comm))

/* One per function. Programs ask whether a function is there, so the drop-in must not define functions that are missing
 * in the MPI library for which it is built. */
#if MPI_VERSION >= 4
#define LOCKSTEP_EACH_CALL(DO) \
  LOCKSTEP_EACH_OPERATION(DO) \
  LOCKSTEP_CALLS_WITH_COUNTS(DO, _c, MPI_Count, MPI_Aint)
#else
#define LOCKSTEP_EACH_CALL(DO) LOCKSTEP_EACH_OPERATION(DO)
#endif
/* clang-format on */

/* One function for each of them. */
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
