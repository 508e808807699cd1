// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels that call the functions in bodies/, and functions that launch these kernels. Only for CUDA's compiler.

#pragma once

#include "device/cuda/arguments.hpp"
#include "device/cuda/kernels.hpp"

#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail::cuda {

template <std::size_t bytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = unsigned char;
};
template <>
struct WordOf<2> {
  using Type = unsigned short;
};
template <>
struct WordOf<4> {
  using Type = unsigned;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

/// Accesses global memory with one load or store instruction per word. Uses intrinsics, because the compiler would
/// split a plain assignment of a word into several instructions. Loads mark the words for early eviction from the
/// caches, because each word is read only once.
struct DeviceMemory {
  template <class Word>
  static __device__ Word load(const void* source) {
    return std::bit_cast<Word>(__ldcs(static_cast<const typename WordOf<sizeof(Word)>::Type*>(source)));
  }
  template <class Word>
  static __device__ void store(void* target, const Word& word) {
    using Bits = typename WordOf<sizeof(Word)>::Type;
    __stwb(static_cast<Bits*>(target), std::bit_cast<Bits>(word));
  }
};

inline __device__ Worker this_worker() { return {blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x)}; }

/// Launches `kernel` with one block per tile, but with no more blocks than are needed to keep all multiprocessors busy.
/// If `tiles` is 0, launches nothing.
template <class Arguments>
Status launch(void (*kernel)(const Arguments), const Arguments& arguments, std::int64_t tiles, Stream stream) {
  constexpr int blocks_per_multiprocessor = 16;
  if (tiles == 0) return Status::success;
  int device = 0;
  int multiprocessors = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return static_cast<Status>(error);
  if (const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      error != cudaSuccess) {
    return static_cast<Status>(error);
  }
  const std::int64_t most_blocks = std::int64_t{multiprocessors} * blocks_per_multiprocessor;
  const auto blocks = static_cast<unsigned>(tiles < most_blocks ? tiles : most_blocks);
  void* values[]{const_cast<Arguments*>(&arguments)};
  return static_cast<Status>(
      cudaLaunchKernel(kernel, dim3(blocks), dim3(threads_per_block), values, 0, static_cast<cudaStream_t>(stream)));
}

template <class Inputs>
__global__ void __launch_bounds__(threads_per_block) fold_kernel(const __grid_constant__ FoldArguments arguments) {
  fold<Inputs, DeviceMemory>(arguments, this_worker());
}

template <class Elements>
Status launch_fold(const Fold& fold, std::int64_t count, Stream stream) {
  const FoldArguments arguments = fold_arguments(fold, count, shape_of<Elements>);
  return with_inputs<Elements>(fold, [&]<class Inputs>(Inputs) {
    return launch(fold_kernel<Inputs>, arguments, tiles(arguments.split, Elements::lanes, Inputs::at_once).count(),
                  stream);
  });
}

// Functions that launch kernels which are compiled for each dtype. Each function has its own source file, so that the
// files compile in parallel.
[[nodiscard]] Status launch_sum(const Fold& fold, std::int64_t count, Stream stream);  ///< also means of floats
[[nodiscard]] Status launch_integer_mean(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_minimum(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_maximum(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_product(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_bits(const Fold& fold, std::int64_t count, Stream stream);
[[nodiscard]] Status launch_sparse_update(const SparseUpdate& update, void* carried, Stream stream);

}  // namespace lockstep::detail::cuda
