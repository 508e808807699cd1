// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The program of mpi_nccl_before.cpp on lockstep, which opens NCCL itself. Compiled with -Dcuda, but not yet run on
// GPUs. If ranks share a GPU, or NCCL is missing, it works as well; then data goes through host memory.

#include <lockstep/interop/cuda.hpp>
#include <lockstep/lockstep.hpp>

#include <cuda_runtime.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

namespace {

/// Ends this rank after an error of CUDA; then the other ranks get an error, too.
void check(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const lockstep::Communicator comm = lockstep::world_communicator();
  const int rank = comm.rank();
  const lockstep::Device device = lockstep::gpus_of_replicas(comm, 1).front();  // an error on all ranks without a GPU
  check(cudaSetDevice(device.index));
  cudaStream_t stream = lockstep::native_stream(device);

  std::vector<float> weights(1000), gradient(weights.size());
  const std::size_t bytes = sizeof(float) * weights.size();
  lockstep::Tensor mean(lockstep::DType::f32, lockstep::Shape{1000}, nullptr, device);
  for (int step = 0; step < 50; ++step) {  // rank r prefers weights of r; a real program launches its kernels here
    for (std::size_t i = 0; i < weights.size(); ++i) gradient[i] = weights[i] - static_cast<float>(rank);
    check(cudaMemcpyAsync(mean.data(), gradient.data(), bytes, cudaMemcpyHostToDevice, stream));
    comm.all_reduce(mean.view(), lockstep::ReduceOp::mean);  // after the work on the stream
    check(cudaMemcpyAsync(gradient.data(), mean.data(), bytes, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5F * gradient[i];
  }
  if (rank == 0) std::printf("%d ranks, weights %.3f\n", comm.size(), weights[0]);
}
