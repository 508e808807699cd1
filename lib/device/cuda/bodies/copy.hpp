// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies of many pieces by threads of a GPU. Pieces are cut into chunks, and a block copies a chunk, so that one large
// piece and many small ones keep all blocks busy.

#pragma once

#include "device/cuda/bodies/packs.hpp"
#include "device/cuda/kernels.hpp"

#include <cstdint>

namespace lockstep::detail::cuda {

/// Pieces as a kernel is told of them: made by `copy_arguments`.
struct CopyArguments {
  static constexpr int most_pieces = 144;

  int piece_count = 0;
  int chunk_bytes = 0;
  CopyPiece pieces[most_pieces];                    ///< none is empty
  std::uint32_t first_chunk[most_pieces + 1] = {};  ///< of each piece; after the last the number of all
};
static_assert(sizeof(CopyArguments) <= 4096);  // what a launch takes along on every GPU

/// Copies `bytes` bytes with the threads of a block in words that source and target allow.
template <class Memory, class Word>
LOCKSTEP_DEVICE void copy_words(const unsigned char* source, unsigned char* target, int bytes, int thread) {
  using Byte = Pack<unsigned char, 1>;
  constexpr int size = sizeof(Word);
  constexpr int at_once = 4;
  const int to_alignment = static_cast<int>(-reinterpret_cast<std::uintptr_t>(target) % size);
  const int head = to_alignment < bytes ? to_alignment : bytes;
  const int words = (bytes - head) / size;
  for (int first = thread; first < words; first += at_once * threads_per_block) {
    Word copied[at_once];
    for (int w = 0; w < at_once; ++w) {
      const int word = first + w * threads_per_block;
      if (word < words) copied[w] = Memory::template load<Word>(source + head + word * size);
    }
    for (int w = 0; w < at_once; ++w) {
      const int word = first + w * threads_per_block;
      if (word < words) Memory::store(target + head + word * size, copied[w]);
    }
  }
  if (thread < bytes - words * size) {
    const int byte = thread < head ? thread : thread + words * size;
    Memory::store(target + byte, Memory::template load<Byte>(source + byte));
  }
}

/// In the widest words to which both are aligned at the same places.
template <class Memory>
LOCKSTEP_DEVICE void copy_chunk(const unsigned char* source, unsigned char* target, int bytes, int thread) {
  const std::uintptr_t difference = reinterpret_cast<std::uintptr_t>(source) ^ reinterpret_cast<std::uintptr_t>(target);
  if (difference % 16 == 0) return copy_words<Memory, Pack<std::uint32_t, 4>>(source, target, bytes, thread);
  if (difference % 8 == 0) return copy_words<Memory, Pack<std::uint32_t, 2>>(source, target, bytes, thread);
  if (difference % 4 == 0) return copy_words<Memory, Pack<std::uint32_t, 1>>(source, target, bytes, thread);
  if (difference % 2 == 0) return copy_words<Memory, Pack<std::uint16_t, 1>>(source, target, bytes, thread);
  copy_words<Memory, Pack<unsigned char, 1>>(source, target, bytes, thread);
}

/// The last piece that begins at or before `chunk`.
LOCKSTEP_DEVICE inline int piece_of(const CopyArguments& arguments, std::uint32_t chunk) {
  int piece = 0;
  for (int step = 128; step > 0; step /= 2) {
    if (piece + step < arguments.piece_count && arguments.first_chunk[piece + step] <= chunk) piece += step;
  }
  return piece;
}

/// What one thread does of a copy.
template <class Memory>
LOCKSTEP_DEVICE void copy(const CopyArguments& arguments, const Worker& worker) {
  const std::int64_t chunks = arguments.first_chunk[arguments.piece_count];
  for (std::int64_t chunk = worker.block; chunk < chunks; chunk += worker.blocks) {
    const int p = piece_of(arguments, static_cast<std::uint32_t>(chunk));
    const CopyPiece& piece = arguments.pieces[p];
    const std::size_t begin =
        static_cast<std::size_t>(chunk - arguments.first_chunk[p]) * static_cast<std::size_t>(arguments.chunk_bytes);
    const std::size_t rest = piece.bytes - begin;
    const int bytes =
        rest < static_cast<std::size_t>(arguments.chunk_bytes) ? static_cast<int>(rest) : arguments.chunk_bytes;
    copy_chunk<Memory>(static_cast<const unsigned char*>(piece.source) + begin,
                       static_cast<unsigned char*>(piece.target) + begin, bytes, worker.thread);
  }
}

}  // namespace lockstep::detail::cuda
