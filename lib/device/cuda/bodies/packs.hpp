// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The division of array elements among the threads of a grid, and the loads and stores of a thread's elements.
//
// A tile is the set of elements that the threads of one block process at a time. If a grid has B blocks, block b
// processes tiles b, b + B, b + 2B, ... There are two kinds of tiles. In a tile of packs, each thread processes `lanes`
// adjacent elements, in words of up to 16 bytes. In a tile of single elements, each thread processes `lanes` elements
// at a distance of threads_per_block, so that `lanes` loads are in flight. If the same number of elements at the front
// (the head) can be skipped to make all arrays aligned, most elements are in tiles of packs, and the head and the rest
// at the end are in tiles of single elements. Otherwise, all elements are in tiles of single elements.

#pragma once

#include "device/cuda/bodies/device_code.hpp"

#include <cstdint>
#include <type_traits>
#include <utility>

namespace lockstep::detail::cuda {

inline constexpr int threads_per_block = 256;
inline constexpr int word_bytes = 16;  ///< size of the widest load and store
/// Size of a cache line. If packs begin within a line, warps share the lines at the ends of their words: on an H200 a
/// fold took up to a third longer.
inline constexpr int line_bytes = 128;

/// A thread of a grid.
struct Worker {
  std::int64_t block = 0;
  std::int64_t blocks = 1;
  int thread = 0;
};

/// `size` elements in registers. After loops are unrolled, all indices are constants.
template <class T, int size>
struct Pack {
  T at[size];
};

/// Calls `visit` with the constants 0 to size - 1. Replaces loops that compilers unroll too late: a compiler keeps an
/// array in registers only if all indices are constants.
template <int size, class Visit>
LOCKSTEP_DEVICE void unrolled(const Visit& visit) {
  [&]<int... index>(std::integer_sequence<int, index...>) {
    (visit(std::integral_constant<int, index>()), ...);
  }(std::make_integer_sequence<int, size>());
}

/// The division of `count` elements. If `is_aligned`, the elements from `head` on are in tiles of packs, except for the
/// elements at the end that do not fill a tile.
struct Split {
  std::int64_t count = 0;
  std::int64_t head = 0;  ///< 0 unless is_aligned
  bool is_aligned = false;
};

/// Numbers of tiles, in the order in which blocks process the tiles.
struct Tiles {
  std::int64_t of_packs;
  std::int64_t of_rest;
  std::int64_t of_head;
  [[nodiscard]] constexpr std::int64_t count() const { return of_packs + of_rest + of_head; }
};

/// The numbers of tiles of `split`. In a tile of packs, a thread processes `at_once` packs of `lanes` elements.
constexpr Tiles tiles(const Split& split, int lanes, int at_once) {
  const std::int64_t singles = std::int64_t{threads_per_block} * lanes;
  const std::int64_t packs = split.is_aligned ? (split.count - split.head) / (singles * at_once) : 0;
  const std::int64_t rest = split.count - split.head - packs * singles * at_once;
  return {packs, (rest + singles - 1) / singles, split.head > 0 ? 1 : 0};
}

/// The position of a pack of `lanes` elements, which begins at element `first`.
template <class Memory, int lanes>
struct SideBySide {
  std::int64_t first = 0;

  template <class T>
  LOCKSTEP_DEVICE Pack<T, lanes> load(const void* array) const {
    using Word = Pack<T, per_word<T>>;
    Pack<T, lanes> pack;
    const T* const source = static_cast<const T*>(array) + first;
    for (int w = 0; w < lanes; w += per_word<T>) {
      const Word word = Memory::template load<Word>(source + w);
      for (int l = 0; l < per_word<T>; ++l) pack.at[w + l] = word.at[l];
    }
    return pack;
  }
  template <class T>
  LOCKSTEP_DEVICE void store(const Pack<T, lanes>& pack, void* array) const {
    using Word = Pack<T, per_word<T>>;
    T* const target = static_cast<T*>(array) + first;
    for (int w = 0; w < lanes; w += per_word<T>) {
      Word word;
      for (int l = 0; l < per_word<T>; ++l) word.at[l] = pack.at[w + l];
      Memory::store(target + w, word);
    }
  }

 private:
  template <class T>
  static constexpr int per_word = lanes * int{sizeof(T)} <= word_bytes ? lanes : word_bytes / int{sizeof(T)};
};

/// The position of up to `lanes` single elements before `end`: first, first + threads_per_block, ...
template <class Memory, int lanes>
struct BlockApart {
  std::int64_t first = 0;
  std::int64_t end = 0;

  template <class T>
  LOCKSTEP_DEVICE Pack<T, lanes> load(const void* array) const {
    const T* const source = static_cast<const T*>(array) + first;
    Pack<T, lanes> pack = {};
    for (int l = 0; l < lanes; ++l) {
      if (exists(l)) pack.at[l] = Memory::template load<Pack<T, 1>>(source + l * threads_per_block).at[0];
    }
    return pack;
  }
  template <class T>
  LOCKSTEP_DEVICE void store(const Pack<T, lanes>& pack, void* array) const {
    T* const target = static_cast<T*>(array) + first;
    for (int l = 0; l < lanes; ++l) {
      if (exists(l)) Memory::store(target + l * threads_per_block, Pack<T, 1>{{pack.at[l]}});
    }
  }

 private:
  LOCKSTEP_DEVICE bool exists(int lane) const { return first + lane * threads_per_block < end; }
};

/// For each tile of `worker`, calls `visit` with an array of positions: `at_once` SideBySides in a tile of packs, or
/// one BlockApart in a tile of single elements.
template <class Memory, int lanes, int at_once, class Visit>
LOCKSTEP_DEVICE void for_each_place(const Split& split, const Worker& worker, const Visit& visit) {
  constexpr std::int64_t singles = std::int64_t{threads_per_block} * lanes;
  const Tiles all = tiles(split, lanes, at_once);
  for (std::int64_t tile = worker.block; tile < all.count(); tile += worker.blocks) {
    if (tile < all.of_packs) {
      const std::int64_t first = split.head + tile * singles * at_once + worker.thread * lanes;
      SideBySide<Memory, lanes> places[at_once];
      for (int p = 0; p < at_once; ++p) places[p] = {first + p * singles};
      visit(places);
    } else {
      const bool is_head = tile == all.of_packs + all.of_rest;
      const std::int64_t rest = split.head + (tile + all.of_packs * (at_once - 1)) * singles;
      const BlockApart<Memory, lanes> places[]{
          {(is_head ? 0 : rest) + worker.thread, is_head ? split.head : split.count}};
      visit(places);
    }
  }
}

}  // namespace lockstep::detail::cuda
