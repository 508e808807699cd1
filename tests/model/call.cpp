// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/call.hpp"

#include <algorithm>

namespace lockstep::test {
namespace {

const std::vector<ReduceOp>& all_ops() {
  static const std::vector<ReduceOp> ops{ReduceOp::sum,  ReduceOp::mean, ReduceOp::min, ReduceOp::max,
                                         ReduceOp::prod, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};
  return ops;
}

std::vector<DType> all_dtypes() {
  std::vector<DType> dtypes;
  for (int d = 0; d < dtype_count; ++d) dtypes.push_back(static_cast<DType>(d));
  return dtypes;
}

/// An operation that most leaves of the nest support.
ReduceOp pick_op(Dice& dice, const NestFacts& nest, bool along) {
  if (dice.one_in(40)) return dice.pick(all_ops());
  std::vector<ReduceOp> ops;
  for (const ReduceOp op : all_ops()) {
    if (along && op != ReduceOp::sum && op != ReduceOp::mean) continue;
    if (nest.dtype && !is_defined(op, *nest.dtype)) continue;
    if (op == ReduceOp::mean && nest.dtype && *nest.dtype > DType::f64) continue;
    ops.push_back(op);
  }
  if (ops.empty()) return ReduceOp::sum;
  // sum and mean as often as all others together
  return !along && dice.one_in(2) ? dice.pick(ops)
                                  : ops[static_cast<std::size_t>(dice.roll(std::min(2, static_cast<int>(ops.size()))))];
}

std::string list_text(const std::vector<int>& list) {
  std::string text = "{";
  for (const int item : list) text += (text.size() == 1 ? "" : ", ") + std::to_string(item);
  return text + "}";
}

}  // namespace

bool fits(Kind kind, const NestFacts& nest) {
  switch (kind) {
    case Kind::reduce_to:
    case Kind::batch_reduce_to: return nest.is_leaf;
    case Kind::all_reduce:
    case Kind::all_gather:
    case Kind::broadcast:
    case Kind::merge_call:
    case Kind::run: return nest.in_replicas;
    default: return true;
  }
}

std::string to_string(const Call& call) {
  constexpr auto places = std::to_array<std::string_view>({"outside", "in scope", "in merge_call", "in update"});
  constexpr auto targets =
      std::to_array<std::string_view>({"value", "device", "device name", "another device", "variable"});
  std::string text(name_of(call.kind));
  text += " " + std::string(places[static_cast<std::size_t>(call.place)]);
  text += ", nest " + std::to_string(call.nest) + ", op " + std::string(lockstep::to_string(call.op));
  text += call.by_name ? " by name" : "";
  text += call.as_double ? " as double" : "";
  text += ", axes " + list_text(call.axes) + ", axis " + std::to_string(call.axis) + ", root " +
          std::to_string(call.root) + ", target " + std::string(targets[static_cast<std::size_t>(call.target)]) +
          ", pairs " + std::to_string(call.pairs) + ", structure " + std::to_string(call.structure);
  text += ", dtypes";
  for (const DType dtype : call.pool) text += " " + std::string(lockstep::to_string(dtype));
  text += ", rank " + std::to_string(call.rank);
  if (call.varying) text += ", extents vary along axis " + std::to_string(*call.varying);
  if (call.changed_leaf >= 0) {
    text += ", changed leaf " + std::to_string(call.changed_leaf);
    text += call.changed_axis < 0 ? " (dtype)" : " (axis " + std::to_string(call.changed_axis) + ")";
  }
  return text;
}

Layout make_layout(std::uint64_t seed) {
  Dice dice(seed * 77 + 5);
  const int ranks = 1 + dice.roll(4);
  const int replicas = ranks + dice.roll(9 - ranks);
  Layout layout{std::vector<int>(static_cast<std::size_t>(ranks), 1)};
  for (int extra = replicas - ranks; extra > 0; --extra) ++layout.counts[static_cast<std::size_t>(dice.roll(ranks))];
  return layout;
}

Call make_call(std::uint64_t seed, const Layout& layout, const std::vector<NestFacts>& nests) {
  Dice dice(seed);
  Call call;
  call.seed = seed;
  call.kind = static_cast<Kind>(dice.roll(kind_count));
  const bool only_tensors = dice.one_in(3);  // they have axes to choose from
  do {
    call.nest = static_cast<std::size_t>(dice.roll(static_cast<int>(nests.size())));
  } while (!fits(call.kind, nests[call.nest]) || (only_tensors && nests[call.nest].dtype));
  const NestFacts& nest = nests[call.nest];
  call.place = static_cast<Place>(dice.roll(4));
  const bool along = call.kind == Kind::reduce_along;
  call.op = pick_op(dice, nest, along);
  call.by_name = dice.one_in(2);
  call.as_double = call.kind == Kind::reduce && nest.only_numbers && dice.one_in(3);
  if (call.as_double && dice.one_in(2)) call.op = ReduceOp::mean;
  for (const DType dtype : all_dtypes()) {
    if (dice.one_in(60) || is_defined(call.op, dtype)) call.pool.push_back(dtype);
  }
  if (dice.one_in(2)) call.pool = {dice.pick(call.pool), dice.pick(call.pool)};
  call.rank = nest.has_numbers ? dice.roll(4) - 1 : nest.has_lists ? 1 : 1 + dice.roll(3);
  const int rank = std::max(call.rank, 1);
  call.axis = dice.one_in(30) ? dice.roll(9) - 4 : dice.roll(2 * rank) - rank;
  if (nest.has_lists && dice.one_in(3)) {  // along the last axis, lists and Tensors of any rank have a valid axis
    call.axis = -1;
    call.rank = 1 + dice.roll(3);
  }
  call.axes = {call.axis};
  if (!nest.has_lists) {
    for (int axis = 0; axis < rank; ++axis) {
      const int resolved = call.axis < 0 ? call.axis + rank : call.axis;
      if (axis != resolved && dice.one_in(3)) call.axes.push_back(dice.one_in(2) ? axis : axis - rank);
    }
  }
  if (dice.one_in(12)) call.axes.clear();
  if (dice.one_in(40)) call.axes.push_back(dice.roll(4) - 2);
  if (dice.one_in(2)) std::reverse(call.axes.begin(), call.axes.end());
  const bool varies = call.kind == Kind::gather || call.kind == Kind::all_gather || (along && !call.axes.empty());
  if (varies && !dice.one_in(4)) call.varying = call.kind == Kind::reduce_along ? call.axes.front() : call.axis;
  call.root = dice.roll(layout.replicas());
  call.target = static_cast<Target>(dice.roll(target_count));
  call.pairs = dice.roll(5);
  call.structure = dice.next() % 1000000;
  call.values = dice.next() % 1000000;
  return call;
}

}  // namespace lockstep::test
