// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into lockstep-perf: MPI's all-reduces of more than 100 floats get one bit of their result wrong on the last
// rank.

#include <mpi.h>

static void plant(void* result, int count, MPI_Datatype datatype, MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  if (datatype == MPI_FLOAT && count > 100 && rank == size - 1) ((unsigned char*)result)[4 * 50] ^= 1;
}

int MPI_Allreduce(const void* input, void* result, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  const int code = PMPI_Allreduce(input, result, count, datatype, op, comm);
  plant(result, count, datatype, comm);
  return code;
}

int MPI_Iallreduce(const void* input, void* result, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  const int code = PMPI_Allreduce(input, result, count, datatype, op, comm);
  plant(result, count, datatype, comm);
  *request = MPI_REQUEST_NULL;
  return code;
}
