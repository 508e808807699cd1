// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The division of array elements among the threads of a grid, and how a thread reads and writes its own.
//
// A tile is the work that the threads of one block do at a time; each block takes every gridDim-th tile. If skipping
// some number of elements brings all arrays to aligned addresses, nearly everything is processed in tiles of packs:
// `lanes` adjacent elements, read and written in words of up to 16 bytes. The rest at both ends, or everything if there
// is no such number, is processed in single elements: each thread has `lanes` of them, threads_per_block apart, so that
// as many loads are in flight.

#pragma once

#include "device/cuda/bodies/device_code.hpp"

#include <cstdint>
#include <type_traits>
#include <utility>

namespace lockstep::detail::cuda {

inline constexpr int threads_per_block = 256;
inline constexpr int word_bytes = 16;  ///< size of the widest load and store

/// A thread of a grid.
struct Worker {
  std::int64_t block = 0;
  std::int64_t blocks = 1;
  int thread = 0;
};

/// `size` elements in registers: indices are constants once loops are unrolled.
template <class T, int size>
struct Pack {
  T at[size];
};

/// Calls `visit` with the constants 0 to size - 1. For loops that compilers unroll too late: an array with an index
/// that is not a constant is not kept in registers.
template <int size, class Visit>
LOCKSTEP_DEVICE void unrolled(const Visit& visit) {
  [&]<int... index>(std::integer_sequence<int, index...>) {
    (visit(std::integral_constant<int, index>()), ...);
  }(std::make_integer_sequence<int, size>());
}

/// The division of `count` elements: if `is_aligned`, the elements from `head` on are processed in packs as far as they
/// fill whole tiles.
struct Split {
  std::int64_t count = 0;
  std::int64_t head = 0;  ///< 0 unless is_aligned
  bool is_aligned = false;
};

/// Tiles, in the order in which blocks process them.
struct Tiles {
  std::int64_t of_packs;
  std::int64_t of_rest;
  std::int64_t of_head;
  [[nodiscard]] constexpr std::int64_t count() const { return of_packs + of_rest + of_head; }
};

/// The tiles of a split in packs of `lanes` elements, of which a thread processes `at_once` at a time.
constexpr Tiles tiles(const Split& split, int lanes, int at_once) {
  const std::int64_t singles = std::int64_t{threads_per_block} * lanes;
  const std::int64_t packs = split.is_aligned ? (split.count - split.head) / (singles * at_once) : 0;
  const std::int64_t rest = split.count - split.head - packs * singles * at_once;
  return {packs, (rest + singles - 1) / singles, split.head > 0 ? 1 : 0};
}

/// A pack of `lanes` elements from `first` on.
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

/// Elements first, first + threads_per_block, ... that are before `end`; at most `lanes`.
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

/// Calls `visit` with an array of the positions of `worker` in each of its tiles: `at_once` packs, or one set of single
/// elements.
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
