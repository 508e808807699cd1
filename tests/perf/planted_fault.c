// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into lockstep-perf: flips one bit of the result of MPI's collectives of more than 100 floats on one rank:
// the root if only the root receives the result, the last rank that receives messages, else the last rank.

#include <mpi.h>

enum { most_receives = 64 };

// Receives that MPI_Waitall has not completed yet, and that will be corrupted.
static unsigned char* received[most_receives];
static int receives = 0;

static void plant_at(int culprit, void* result, int count, MPI_Datatype datatype, MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  if (datatype == MPI_FLOAT && count > 100 && rank == culprit) ((unsigned char*)result)[4 * 50] ^= 1;
}

static void plant(void* result, int count, MPI_Datatype datatype, MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  plant_at(size - 1, result, count, datatype, comm);
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

int MPI_Reduce(const void* input, void* result, int count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm) {
  const int code = PMPI_Reduce(input, result, count, datatype, op, root, comm);
  plant_at(root, result, count, datatype, comm);
  return code;
}

int MPI_Reduce_scatter_block(const void* input, void* result, int count, MPI_Datatype datatype, MPI_Op op,
                             MPI_Comm comm) {
  const int code = PMPI_Reduce_scatter_block(input, result, count, datatype, op, comm);
  plant(result, count, datatype, comm);
  return code;
}

int MPI_Allgather(const void* input, int count, MPI_Datatype datatype, void* result, int result_count,
                  MPI_Datatype result_datatype, MPI_Comm comm) {
  const int code = PMPI_Allgather(input, count, datatype, result, result_count, result_datatype, comm);
  plant(result, result_count, result_datatype, comm);
  return code;
}

int MPI_Gather(const void* input, int count, MPI_Datatype datatype, void* result, int result_count,
               MPI_Datatype result_datatype, int root, MPI_Comm comm) {
  const int code = PMPI_Gather(input, count, datatype, result, result_count, result_datatype, root, comm);
  plant_at(root, result, result_count, result_datatype, comm);
  return code;
}

int MPI_Allgatherv(const void* input, int count, MPI_Datatype datatype, void* result, const int counts[],
                   const int displacements[], MPI_Datatype result_datatype, MPI_Comm comm) {
  const int code = PMPI_Allgatherv(input, count, datatype, result, counts, displacements, result_datatype, comm);
  plant(result, counts[0], result_datatype, comm);
  return code;
}

int MPI_Gatherv(const void* input, int count, MPI_Datatype datatype, void* result, const int counts[],
                const int displacements[], MPI_Datatype result_datatype, int root, MPI_Comm comm) {
  const int code = PMPI_Gatherv(input, count, datatype, result, counts, displacements, result_datatype, root, comm);
  plant_at(root, result, counts[0], result_datatype, comm);
  return code;
}

int MPI_Scatter(const void* input, int count, MPI_Datatype datatype, void* result, int result_count,
                MPI_Datatype result_datatype, int root, MPI_Comm comm) {
  const int code = PMPI_Scatter(input, count, datatype, result, result_count, result_datatype, root, comm);
  plant(result, result_count, result_datatype, comm);
  return code;
}

int MPI_Scatterv(const void* input, const int counts[], const int displacements[], MPI_Datatype datatype, void* result,
                 int result_count, MPI_Datatype result_datatype, int root, MPI_Comm comm) {
  const int code =
      PMPI_Scatterv(input, counts, displacements, datatype, result, result_count, result_datatype, root, comm);
  plant(result, result_count, result_datatype, comm);
  return code;
}

int MPI_Alltoall(const void* input, int count, MPI_Datatype datatype, void* result, int result_count,
                 MPI_Datatype result_datatype, MPI_Comm comm) {
  const int code = PMPI_Alltoall(input, count, datatype, result, result_count, result_datatype, comm);
  plant(result, result_count, result_datatype, comm);
  return code;
}

int MPI_Alltoallv(const void* input, const int counts[], const int displacements[], MPI_Datatype datatype, void* result,
                  const int result_counts[], const int result_displacements[], MPI_Datatype result_datatype,
                  MPI_Comm comm) {
  const int code = PMPI_Alltoallv(input, counts, displacements, datatype, result, result_counts, result_displacements,
                                  result_datatype, comm);
  plant(result, result_counts[0], result_datatype, comm);
  return code;
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  const int code = PMPI_Bcast(buffer, count, datatype, root, comm);
  plant(buffer, count, datatype, comm);
  return code;
}

// Messages go between pairs of ranks; the last of an odd number of ranks receives none.
static int is_culprit_of_messages(int count, MPI_Datatype datatype, MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  return datatype == MPI_FLOAT && count > 100 && rank == size / 2 * 2 - 1;
}

int MPI_Recv(void* result, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  const int code = PMPI_Recv(result, count, datatype, source, tag, comm, status);
  if (is_culprit_of_messages(count, datatype, comm)) ((unsigned char*)result)[4 * 50] ^= 1;
  return code;
}

int MPI_Irecv(void* result, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (is_culprit_of_messages(count, datatype, comm) && receives < most_receives) received[receives++] = result;
  return PMPI_Irecv(result, count, datatype, source, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const int code = PMPI_Waitall(count, requests, statuses);
  while (receives > 0) received[--receives][4 * 50] ^= 1;
  return code;
}
