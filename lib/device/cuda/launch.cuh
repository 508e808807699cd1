// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels that call the functions in bodies/, and functions that launch these kernels. Only for CUDA's compiler.

#pragma once

#include "device/cuda/arguments.hpp"
#include "device/cuda/kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

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
/// split a plain assignment of a word into several instructions. Loads use only the L2 cache, because a thread reads
/// each word once. (Marked for early eviction instead, they were 4 % slower on an H200, and 10 % with unaligned arrays,
/// whose sectors two warps read.)
struct DeviceMemory {
  template <class Word>
  static __device__ Word load(const void* source) {
    return std::bit_cast<Word>(__ldcg(static_cast<const typename WordOf<sizeof(Word)>::Type*>(source)));
  }
  template <class Word>
  static __device__ void store(void* target, const Word& word) {
    using Bits = typename WordOf<sizeof(Word)>::Type;
    __stwb(static_cast<Bits*>(target), std::bit_cast<Bits>(word));
  }
};

inline __device__ Worker this_worker() { return {blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x)}; }

/// An entry in the list of all kernels of this build, from which load_all loads them. `launch` makes the entry of each
/// kernel that it is compiled for, so that no kernel can be missing. The entries register themselves, unlike anything
/// else in this library, because only the compiler knows all instances of the templates. The list is complete after
/// static initialization, and constant from then on, so that all threads may read it; an entry allocates no memory.
class KernelEntry {
 public:
  explicit KernelEntry(const void* kernel) : kernel_(kernel), next_(first_) { first_ = this; }
  KernelEntry(const KernelEntry&) = delete;
  KernelEntry& operator=(const KernelEntry&) = delete;

  [[nodiscard]] static const KernelEntry* first() { return first_; }
  [[nodiscard]] const KernelEntry* next() const { return next_; }
  [[nodiscard]] const void* kernel() const { return kernel_; }

 private:
  static constinit inline const KernelEntry* first_ = nullptr;
  const void* kernel_;
  const KernelEntry* next_;
};

template <auto kernel>
inline const KernelEntry kernel_entry{reinterpret_cast<const void*>(kernel)};

/// Launches `kernel` with one block per tile; launches nothing if `tiles` is 0. The blocks of one grid begin in the
/// order of their tiles, so that all of them work on neighbouring memory. (With just enough blocks to keep all
/// multiprocessors busy, each for many tiles, blocks drift apart: on an H200 that cost 5 % with aligned arrays and up
/// to half of the rate with others.)
template <auto kernel, class Arguments>
Status launch(const Arguments& arguments, std::int64_t tiles, Stream stream) {
  static_assert(std::is_same_v<decltype(kernel), void (*)(Arguments)>);
  constexpr std::int64_t most_blocks = std::numeric_limits<std::int32_t>::max();  // CUDA's limit of gridDim.x
  if (tiles == 0) return Status::success;
  const auto blocks = static_cast<unsigned>(std::min(tiles, most_blocks));
  void* values[]{const_cast<Arguments*>(&arguments)};
  return static_cast<Status>(cudaLaunchKernel(kernel_entry<kernel>.kernel(), dim3(blocks), dim3(threads_per_block),
                                              values, 0, static_cast<cudaStream_t>(stream)));
}

/// The number of thread blocks for which a multiprocessor must have room; 0: as the compiler chooses. For minima and
/// maxima of small integers, the compiler would choose so many blocks that registers are spilled to memory.
template <class Inputs>
inline constexpr int least_blocks = 0;
template <class T, ReduceOp op>
  requires(op == ReduceOp::min || op == ReduceOp::max)
inline constexpr int least_blocks<AnyInputs<Plain<T, op>>> = sizeof(T) == 1 ? 2 : 0;
template <class T, ReduceOp op>
  requires(op == ReduceOp::min || op == ReduceOp::max)
inline constexpr int least_blocks<GroupedInputs<Narrow<Plain<T, op>>, InputKinds::leaves>> = 3;

template <class Inputs>
__global__ void __launch_bounds__(threads_per_block, least_blocks<Inputs>)
    fold_kernel(const __grid_constant__ FoldArguments arguments) {
  fold<Inputs, DeviceMemory>(arguments, this_worker());
}

template <class Elements>
Status launch_fold(const Fold& fold, std::int64_t count, Stream stream) {
  const FoldArguments arguments = fold_arguments(fold, count, shape_of<Elements>);
  return with_inputs<Elements>(fold, [&]<class Inputs>(Inputs) {
    const Tiles all = tiles(arguments.split, Inputs::Elements::lanes, Inputs::at_once);
    return launch<fold_kernel<Inputs>>(arguments, all.count(), stream);
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
[[nodiscard]] Status launch_elementwise(const Elementwise& what, Stream stream);
[[nodiscard]] Status launch_sparse_update(const SparseUpdate& update, void* carried, Stream stream);

}  // namespace lockstep::detail::cuda
