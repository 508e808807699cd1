// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The code of a GPU thread that fills an array with one element.

#pragma once

#include "device/cuda/bodies/packs.hpp"

#include <cstdint>

namespace lockstep::detail::cuda {

/// The arguments of a fill kernel. `fill_arguments` makes them. Bytes from offset `head` on are written in aligned
/// words.
struct FillArguments {
  unsigned char* target = nullptr;
  std::int64_t bytes = 0;
  std::int64_t words = 0;
  int head = 0;
  int element_bytes = 1;
  Pack<unsigned char, 8> element = {};
  Pack<std::uint32_t, 4> word = {};  ///< the repeated element, as it is stored from offset `head` on
};

constexpr std::int64_t tiles(const FillArguments& arguments) {
  return arguments.bytes == 0 ? 0 : arguments.words / threads_per_block + 1;
}

/// The work of one thread in a fill.
template <class Memory>
LOCKSTEP_DEVICE void fill(const FillArguments& arguments, const Worker& worker) {
  const std::int64_t threads = worker.blocks * threads_per_block;
  const std::int64_t thread = worker.block * threads_per_block + worker.thread;
  for (std::int64_t word = thread; word < arguments.words; word += threads) {
    Memory::store(arguments.target + arguments.head + word * word_bytes, arguments.word);
  }
  // there are fewer remaining bytes than threads in a block
  if (thread < arguments.bytes - arguments.words * word_bytes) {
    const std::int64_t byte = thread < arguments.head ? thread : thread + arguments.words * word_bytes;
    Memory::store(arguments.target + byte,
                  Pack<unsigned char, 1>{{arguments.element.at[byte % arguments.element_bytes]}});
  }
}

}  // namespace lockstep::detail::cuda
