// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A data-parallel loop with MPI and NCCL, one GPU per rank; mpi_nccl.cpp is the same program on lockstep. Compiled with
// -Dcuda, but not yet run on GPUs.

#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

#include <cstdio>
#include <vector>

namespace {

/// Ends the job after an error of CUDA or NCCL; the code of success is 0.
template <class Code>
void check(Code code) {
  if (code == Code{}) return;
  std::fprintf(stderr, "error %d of CUDA or NCCL\n", static_cast<int>(code));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, rank_on_node = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank_on_node);
  check(cudaSetDevice(rank_on_node));
  ncclUniqueId id;
  if (rank == 0) check(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, size, id, rank));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));

  std::vector<float> weights(1000), gradient(weights.size());
  const std::size_t bytes = sizeof(float) * weights.size();
  float* mean = nullptr;
  check(cudaMalloc(&mean, bytes));
  for (int step = 0; step < 50; ++step) {  // rank r prefers weights of r; a real program launches its kernels here
    for (std::size_t i = 0; i < weights.size(); ++i) gradient[i] = weights[i] - static_cast<float>(rank);
    check(cudaMemcpyAsync(mean, gradient.data(), bytes, cudaMemcpyHostToDevice, stream));
    check(ncclAllReduce(mean, mean, weights.size(), ncclFloat, ncclAvg, comm, stream));
    check(cudaMemcpyAsync(gradient.data(), mean, bytes, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5F * gradient[i];
  }
  if (rank == 0) std::printf("%d ranks, weights %.3f\n", size, weights[0]);
  check(cudaFree(mean));
  check(ncclCommDestroy(comm));
  MPI_Finalize();
}
