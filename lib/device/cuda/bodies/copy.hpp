// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The code of a GPU thread that copies regions. The regions are cut into chunks of equal size, and each thread block
// copies whole chunks. So all thread blocks are busy, both with one large region and with many small regions.

#pragma once

#include "device/cuda/bodies/packs.hpp"
#include "device/cuda/kernels.hpp"

#include <cstdint>

namespace lockstep::detail::cuda {

/// The arguments of a copy kernel. `copy_arguments` makes them.
struct CopyArguments {
  static constexpr int most_regions = 144;

  int region_count = 0;
  int chunk_bytes = 0;
  CopyRegion regions[most_regions];                  ///< without empty regions
  std::uint32_t first_chunk[most_regions + 1] = {};  ///< first chunk of each region, then the number of chunks
};
static_assert(sizeof(CopyArguments) <= 4096);  // every GPU supports this size of kernel arguments

/// The work of `thread` when its thread block copies `bytes` bytes in Words. The addresses `source` and `target` must
/// be equal modulo the size of a Word.
template <class Memory, class Word>
LOCKSTEP_DEVICE void copy_words(const unsigned char* source, unsigned char* target, int bytes, int thread) {
  using Byte = Pack<unsigned char, 1>;
  constexpr int size = sizeof(Word);
  constexpr int at_once = 4;
  const int to_alignment = static_cast<int>(-reinterpret_cast<std::uintptr_t>(target) % size);
  const int head = to_alignment < bytes ? to_alignment : bytes;
  const int words = (bytes - head) / size;
  if (thread < bytes - words * size) {
    const int byte = thread < head ? thread : thread + words * size;
    Memory::store(target + byte, Memory::template load<Byte>(source + byte));
  }
  // one address each, to which the compiler adds constants: addresses of all words would take too many registers
  const unsigned char* from = source + head + thread * size;
  unsigned char* to = target + head + thread * size;
  for (int left = words - thread; left > 0; left -= at_once * threads_per_block) {
    Word copied[at_once];
    for (int w = 0; w < at_once; ++w) {
      if (w * threads_per_block < left) copied[w] = Memory::template load<Word>(from + w * threads_per_block * size);
    }
    for (int w = 0; w < at_once; ++w) {
      if (w * threads_per_block < left) Memory::store(to + w * threads_per_block * size, copied[w]);
    }
    from += at_once * threads_per_block * size;
    to += at_once * threads_per_block * size;
  }
}

/// Copies a chunk in the largest Words for which `source` and `target` are equal modulo the size of a Word.
template <class Memory>
LOCKSTEP_DEVICE void copy_chunk(const unsigned char* source, unsigned char* target, int bytes, int thread) {
  const std::uintptr_t difference = reinterpret_cast<std::uintptr_t>(source) ^ reinterpret_cast<std::uintptr_t>(target);
  if (difference % 16 == 0) return copy_words<Memory, Pack<std::uint32_t, 4>>(source, target, bytes, thread);
  if (difference % 8 == 0) return copy_words<Memory, Pack<std::uint32_t, 2>>(source, target, bytes, thread);
  if (difference % 4 == 0) return copy_words<Memory, Pack<std::uint32_t, 1>>(source, target, bytes, thread);
  if (difference % 2 == 0) return copy_words<Memory, Pack<std::uint16_t, 1>>(source, target, bytes, thread);
  copy_words<Memory, Pack<unsigned char, 1>>(source, target, bytes, thread);
}

/// Index of the region that contains `chunk`.
LOCKSTEP_DEVICE inline int region_of(const CopyArguments& arguments, std::uint32_t chunk) {
  int region = 0;
  for (int step = 128; step > 0; step /= 2) {
    if (region + step < arguments.region_count && arguments.first_chunk[region + step] <= chunk) region += step;
  }
  return region;
}

/// The work of one thread in a copy.
template <class Memory>
LOCKSTEP_DEVICE void copy(const CopyArguments& arguments, const Worker& worker) {
  const std::int64_t chunks = arguments.first_chunk[arguments.region_count];
  for (std::int64_t chunk = worker.block; chunk < chunks; chunk += worker.blocks) {
    const int p = region_of(arguments, static_cast<std::uint32_t>(chunk));
    const CopyRegion& region = arguments.regions[p];
    const std::size_t begin =
        static_cast<std::size_t>(chunk - arguments.first_chunk[p]) * static_cast<std::size_t>(arguments.chunk_bytes);
    const std::size_t rest = region.bytes - begin;
    const int bytes =
        rest < static_cast<std::size_t>(arguments.chunk_bytes) ? static_cast<int>(rest) : arguments.chunk_bytes;
    copy_chunk<Memory>(static_cast<const unsigned char*>(region.source) + begin,
                       static_cast<unsigned char*>(region.target) + begin, bytes, worker.thread);
  }
}

}  // namespace lockstep::detail::cuda
