// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The code of a GPU thread in sparse updates, which combine rows of a matrix with slices. Several slices may be for the
// same row. Each element of a row belongs to one thread, which combines the element with the elements of the row's
// slices, in the order of the slices. So no operation is atomic, and the bits are those of the host. The cost is that
// all slices of a row are processed one after the other, with four loads in flight.

#pragma once

#include "device/cuda/bodies/fold.hpp"
#include "device/cuda/bodies/packs.hpp"
#include "device/cuda/kernels.hpp"
#include "kernels/sparse_update.hpp"

#include <cstdint>
#include <type_traits>

namespace lockstep::detail::cuda {

/// The arguments of a sparse update kernel. `sparse_update_arguments` makes them.
struct SparseUpdateArguments {
  void* target = nullptr;
  const void* slices = nullptr;
  void* carried = nullptr;
  std::int64_t width = 0;
  int row_count = 0;
  int divisor = 1;
  ElementOp op = ElementOp::add;
  bool in_packs = false;       ///< whether elements are processed in packs, not singly
  bool begins_inside = false;  ///< the first row continues from the accumulators in `carried`
  bool ends_inside = false;    ///< the last row continues in the next launch; its accumulators are stored in `carried`
  std::uint8_t first_step[Kernels::most_row_steps + 1] = {};  ///< first step of each row, then the number of steps
  std::int64_t rows[Kernels::most_row_steps] = {};
  std::int64_t slice_of[Kernels::most_row_steps] = {};  ///< slice of each step
};
static_assert(sizeof(SparseUpdateArguments) <= 4096);  // every GPU supports this size of kernel arguments

constexpr std::int64_t tiles(const SparseUpdateArguments& arguments, int lanes) {
  const std::int64_t packs = arguments.row_count * (arguments.width / (arguments.in_packs ? lanes : 1));
  return (packs + threads_per_block - 1) / threads_per_block;
}

/// The element class `Elements`, but with one element at a time.
template <class Elements>
struct Single : Elements {
  static constexpr int lanes = 1;
};

template <ElementOp op, class Elements>
LOCKSTEP_DEVICE void step(Accumulators<Elements>& values, const Leaves<Elements>& slice, int divisor) {
  using Partial = typename Elements::Partial;
  for (int l = 0; l < Elements::lanes; ++l) {
    Partial value = Elements::widen(slice.at[l]);
    if constexpr (std::is_floating_point_v<Partial>) {
      if (divisor != 1) value = value / static_cast<Partial>(divisor);
    }
    values.at[l] = combine_elements<op>(values.at[l], value);
  }
}

/// Applies all steps of row number `r` of this launch to the row's `lanes` elements from `column` on.
template <ElementOp op, class Elements, class Memory>
LOCKSTEP_DEVICE void update_row(const SparseUpdateArguments& arguments, int r, std::int64_t column) {
  using Leaf = typename Elements::Leaf;
  using Partial = typename Elements::Partial;
  using Place = SideBySide<Memory, Elements::lanes>;
  constexpr int at_once = 4;
  const Place target{arguments.rows[r] * arguments.width + column};
  const Place carried{column};
  Accumulators<Elements> values = r == 0 && arguments.begins_inside
                                      ? carried.template load<Partial>(arguments.carried)
                                      : widened<Elements>(target.template load<Leaf>(arguments.target));
  const int end = arguments.first_step[r + 1];
  for (int first = arguments.first_step[r]; first < end; first += at_once) {
    Leaves<Elements> slices[at_once];
    unrolled<at_once>([&](auto k) {
      if (first + k >= end) return;
      const Place place{arguments.slice_of[first + k] * arguments.width + column};
      slices[k] = place.template load<Leaf>(arguments.slices);
    });
    unrolled<at_once>([&](auto k) {
      if (first + k < end) step<op, Elements>(values, slices[k], arguments.divisor);
    });
  }
  if (r + 1 == arguments.row_count && arguments.ends_inside) return carried.store(values, arguments.carried);
  Pack<typename Elements::Result, Elements::lanes> results;
  for (int l = 0; l < Elements::lanes; ++l) results.at[l] = Elements::finish(values.at[l], Ending{});
  target.store(results, arguments.target);
}

template <ElementOp op, class Elements, class Memory>
LOCKSTEP_DEVICE void update_rows_by(const SparseUpdateArguments& arguments, const Worker& worker) {
  const std::int64_t packs_per_row = arguments.width / Elements::lanes;
  const std::int64_t packs = arguments.row_count * packs_per_row;
  const std::int64_t first = worker.block * threads_per_block + worker.thread;
  for (std::int64_t pack = first; pack < packs; pack += worker.blocks * threads_per_block) {
    const std::int64_t row = pack / packs_per_row;
    const std::int64_t column = (pack - row * packs_per_row) * Elements::lanes;
    update_row<op, Elements, Memory>(arguments, static_cast<int>(row), column);
  }
}

template <class Elements, class Memory>
LOCKSTEP_DEVICE void update_rows_of(const SparseUpdateArguments& arguments, const Worker& worker) {
  switch (arguments.op) {
    case ElementOp::add: return update_rows_by<ElementOp::add, Elements, Memory>(arguments, worker);
    case ElementOp::sub: return update_rows_by<ElementOp::sub, Elements, Memory>(arguments, worker);
    case ElementOp::mul: return update_rows_by<ElementOp::mul, Elements, Memory>(arguments, worker);
    case ElementOp::div: return update_rows_by<ElementOp::div, Elements, Memory>(arguments, worker);
    case ElementOp::min: return update_rows_by<ElementOp::min, Elements, Memory>(arguments, worker);
    case ElementOp::max: return update_rows_by<ElementOp::max, Elements, Memory>(arguments, worker);
    case ElementOp::update: break;
  }
}

/// The work of one thread in one launch of a sparse update.
template <class Elements, class Memory>
LOCKSTEP_DEVICE void apply_sparse_update(const SparseUpdateArguments& arguments, const Worker& worker) {
  if (arguments.in_packs) return update_rows_of<Elements, Memory>(arguments, worker);
  update_rows_of<Single<Elements>, Memory>(arguments, worker);
}

}  // namespace lockstep::detail::cuda
