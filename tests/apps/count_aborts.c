/* SPDX-FileCopyrightText: The lockstep authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded: prints each call of MPI_Abort, and makes it slow, so that a second call can begin. */

#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int MPI_Abort(MPI_Comm comm, int code) {
  fprintf(stderr, "MPI_Abort in process %ld with code %d\n", (long)getpid(), code);
  usleep(200000);
  return PMPI_Abort(comm, code);
}
