// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/deviation.hpp"

#include "model/judge.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::test {
namespace {

bool reduces(Kind kind) {
  return kind == Kind::reduce || kind == Kind::reduce_along || kind == Kind::reduce_to ||
         kind == Kind::batch_reduce_to || kind == Kind::all_reduce || kind == Kind::merge_call;
}
bool gathers(Kind kind) { return kind == Kind::gather || kind == Kind::all_gather; }
bool is_collective(Kind kind) { return reduces(kind) || gathers(kind) || kind == Kind::broadcast; }

ReplicaLeaves leaves_of(const Call& call, const Layout& layout) {
  return all_nests()[call.nest].record(call, layout).leaves;
}

/// Indices of the leaves that the ranks exchange.
std::vector<std::size_t> exchanged(const Call& call, const Leaves& leaves, const Layout& layout) {
  std::vector<std::size_t> result;
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    const bool is_own = leaves[k].share == Share::plain && layout.once_per_rank() && !gathers(call.kind);
    if (leaves[k].share == Share::per_replica || is_own) result.push_back(k);
  }
  return result;
}

/// Whether the call is valid on all ranks, and collective.
bool is_effective(const Call& call, const Layout& layout) {
  if (!is_collective(call.kind) || !fits(call.kind, all_facts()[call.nest])) return false;
  if (expected(call, layout, 0).error) return false;
  return call.kind != Kind::batch_reduce_to || call.pairs > 0;
}

/// What an agreement compares: the structure, and the dtypes and extents of the exchanged leaves without the extents
/// that may differ.
struct Agreed {
  std::string skeleton;
  std::vector<std::pair<DType, Extents>> leaves;

  friend bool operator==(const Agreed& a, const Agreed& b) = default;
};
Agreed agreed(const Call& call, const Layout& layout) {
  const Recorded nest = all_nests()[call.nest].record(call, layout);
  const Leaves& leaves = nest.leaves.front();
  Agreed result{nest.skeleton, {}};
  for (const std::size_t k : exchanged(call, leaves, layout)) {
    Extents shape = leaves[k].elements.shape;
    const std::vector<int> free = call.kind == Kind::reduce_along ? call.axes
                                  : gathers(call.kind)            ? std::vector<int>{call.axis}
                                                                  : std::vector<int>{};
    const auto along = resolved(free, shape);
    if (along) {
      for (const std::size_t axis : *along) shape[axis] = -1;
    }
    result.leaves.emplace_back(leaves[k].elements.dtype, std::move(shape));
  }
  return result;
}

/// The axes of each exchanged leaf, counted from 0.
std::vector<std::set<std::size_t>> resolved_axes(const Call& call, const Layout& layout) {
  const Leaves leaves = leaves_of(call, layout).front();
  std::vector<std::set<std::size_t>> result;
  for (const std::size_t k : exchanged(call, leaves, layout)) {
    const auto axes = call.kind == Kind::reduce_along ? call.axes : std::vector<int>{call.axis};
    result.push_back(resolved(axes, leaves[k].elements.shape).value_or(std::set<std::size_t>()));
  }
  return result;
}

/// The index of a nest of another element type with the same structure.
std::optional<std::size_t> nest_of_other_type(Dice& dice, const NestFacts& nest) {
  const std::string kind = nest.name.substr(nest.name.find(' '));
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < all_facts().size(); ++i) {
    const NestFacts& other = all_facts()[i];
    if (other.dtype && other.dtype != nest.dtype && other.name.substr(other.name.find(' ')) == kind)
      others.push_back(i);
  }
  if (others.empty()) return std::nullopt;
  return dice.pick(others);
}

bool change_leaf(Dice& dice, Call& call, const Layout& layout, bool dtype) {
  const Leaves leaves = leaves_of(call, layout).front();
  std::vector<std::pair<std::size_t, int>> choices;
  for (const std::size_t k : exchanged(call, leaves, layout)) {
    const LeafValue& leaf = leaves[k];
    if (dtype && leaf.form == Form::tensor) choices.emplace_back(k, -1);
    if (dtype || leaf.form == Form::number || (leaf.form == Form::list && leaf.elements.shape == Extents{2})) continue;
    for (std::size_t axis = 0; axis < leaf.elements.shape.size(); ++axis)
      choices.emplace_back(k, static_cast<int>(axis));
  }
  if (choices.empty()) return false;
  const auto [leaf, axis] = dice.pick(choices);
  call.changed_leaf = static_cast<int>(leaf);
  call.changed_axis = axis;
  return true;
}

/// The arguments of few calls are changed more often.
Change pick_change(Dice& dice, const Call& call) {
  if (dice.one_in(2)) {
    if (call.kind == Kind::reduce_along || gathers(call.kind)) return Change::axis;
    if (call.kind == Kind::broadcast) return Change::root;
    if (call.kind == Kind::reduce && all_facts()[call.nest].only_numbers) return Change::result;
  }
  return static_cast<Change>(dice.roll(change_count));
}

/// Changes one argument of `call`. Returns whether it has such an argument.
bool apply(Dice& dice, Change change, Call& call, const Layout& layout) {
  switch (change) {
    case Change::op: call.op = static_cast<ReduceOp>(dice.roll(reduce_op_count)); return reduces(call.kind);
    case Change::axis:
      call.axis = dice.roll(6) - 3;
      call.axes = {call.axis};
      if (dice.one_in(3)) call.axes.push_back(dice.roll(6) - 3);
      if (dice.one_in(6)) call.axes.clear();
      return call.kind == Kind::reduce_along || gathers(call.kind);
    case Change::dtype:
      if (all_facts()[call.nest].dtype && dice.one_in(2)) {
        const auto other = nest_of_other_type(dice, all_facts()[call.nest]);
        call.nest = other.value_or(call.nest);
        return other.has_value();
      }
      return change_leaf(dice, call, layout, true);
    case Change::shape: return change_leaf(dice, call, layout, false);
    case Change::structure:
      if (call.kind == Kind::batch_reduce_to) call.pairs = dice.roll(5);
      call.structure = dice.next() % 1000000;
      return true;
    case Change::target:
      call.target = static_cast<Target>(dice.roll(target_count));
      return call.kind == Kind::reduce_to || call.kind == Kind::batch_reduce_to;
    case Change::root: call.root = dice.roll(layout.replicas()); return call.kind == Kind::broadcast;
    case Change::result:
      call.as_double = !call.as_double;
      return call.kind == Kind::reduce && all_facts()[call.nest].only_numbers;
    case Change::call: {
      const Kind kinds[] = {Kind::reduce, Kind::reduce_to,  Kind::batch_reduce_to, Kind::all_reduce,
                            Kind::gather, Kind::all_gather, Kind::broadcast,       Kind::reduce_along};
      call.kind = kinds[dice.roll(8)];
      call.pairs = 1;
      call.as_double = false;
      return true;
    }
  }
  return false;
}

/// Whether the call is a reduction without axes: an empty list of axes reduces Tensors without axes.
bool is_without_axes(const Call& call) {
  if (call.kind == Kind::reduce || call.kind == Kind::merge_call) return true;
  return call.kind == Kind::reduce_along && call.axes.empty() && !all_facts()[call.nest].dtype;
}

/// A device and its name are one destination; values and variables are on the devices of their copies.
Target normalized(Target target) {
  return target == Target::device_name ? Target::device : target == Target::variable ? Target::value : target;
}

/// Whether the changed call differs from the call after both are normalized.
bool differs(Change change, const Call& call, const Call& changed, const Layout& layout) {
  switch (change) {
    case Change::op: return changed.op != call.op;
    case Change::axis: return resolved_axes(changed, layout) != resolved_axes(call, layout);
    case Change::root: return changed.root != call.root;
    case Change::target: return normalized(changed.target) != normalized(call.target);
    case Change::call: return changed.kind != call.kind && !(is_without_axes(call) && is_without_axes(changed));
    case Change::result: return changed.as_double != call.as_double;
    default: return agreed(changed, layout) != agreed(call, layout);
  }
}

/// The error that all ranks must get. A gather compares the shapes itself.
Code error_of(Change change, const Call& call, const Call& changed, const Layout& layout) {
  const bool has_other_shapes = change == Change::dtype || change == Change::shape || change == Change::structure;
  if (!gathers(call.kind) || !has_other_shapes) return Code::mismatch;
  return agreed(call, layout).skeleton == agreed(changed, layout).skeleton ? Code::invalid_argument : Code::mismatch;
}

}  // namespace

std::optional<Deviation> make_deviation(Dice& dice, Call& call, const Layout& layout) {
  if (layout.ranks() < 2) return std::nullopt;
  call.varying.reset();
  if (!is_effective(call, layout)) return std::nullopt;
  for (int tries = 0; tries < 60; ++tries) {
    Deviation deviation{pick_change(dice, call), dice.roll(layout.ranks()), call, Code::mismatch};
    if (!apply(dice, deviation.change, deviation.call, layout)) continue;
    if (!is_effective(deviation.call, layout) || !differs(deviation.change, call, deviation.call, layout)) continue;
    deviation.error = error_of(deviation.change, call, deviation.call, layout);
    return deviation;
  }
  return std::nullopt;
}

Call spelled(const Call& call, const Layout& layout, int rank) {
  Call other = call;
  if (rank % 2 == 0 || !is_collective(call.kind)) return call;
  other.by_name = !call.by_name;
  if (call.target == Target::device) other.target = Target::device_name;
  const Leaves leaves = leaves_of(call, layout).front();
  if (leaves.empty() || call.rank < 0) return other;
  const std::size_t axes = leaves.front().elements.shape.size();
  if (std::any_of(leaves.begin(), leaves.end(), [&](const auto& l) { return l.elements.shape.size() != axes; }))
    return other;
  const int count = static_cast<int>(axes);
  const auto flip = [count](int axis) {
    return axis < -count || axis >= count ? axis : axis < 0 ? axis + count : axis - count;
  };
  other.axis = flip(call.axis);
  for (int& axis : other.axes) axis = flip(axis);
  std::reverse(other.axes.begin(), other.axes.end());
  return other;
}

}  // namespace lockstep::test
