/* SPDX-FileCopyrightText: The lockstep authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded before the drop-in: stops rank STOP_RANK in front of its STOP_CALL-th MPI_Allreduce. */

#include <mpi.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int number_of(const char* name) {
  const char* const text = getenv(name);
  return text == NULL ? -1 : atoi(text);
}

static void stop_if_due(void) {
  static int calls = 0;
  const int rank = number_of("OMPI_COMM_WORLD_RANK") >= 0 ? number_of("OMPI_COMM_WORLD_RANK") : number_of("PMI_RANK");
  if (++calls == number_of("STOP_CALL") && rank == number_of("STOP_RANK")) raise(SIGSTOP);
}

static int allreduce(const char* next, const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm comm) {
  int (*call)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm) = NULL;
  void* const address = dlsym(RTLD_NEXT, next);
  memcpy((void*)&call, (const void*)&address, sizeof address);
  stop_if_due();
  return call(in, out, count, type, op, comm);
}

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return allreduce("MPI_Allreduce", in, out, count, type, op, comm);
}
/* Fortran's names call this one. */
int PMPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return allreduce("PMPI_Allreduce", in, out, count, type, op, comm);
}
