// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of lists of dense, sparse and shared values: batch_reduce_to of ReducePairs, and all_reduce in a step.

#include "model/judge.hpp"

#include <cstring>
#include <tuple>
#include <utility>

namespace lockstep::test {
namespace {

enum class Sort : std::uint8_t { dense, sparse, mirrored, plain, variable };

/// A value, equal on all ranks but for its elements.
struct PairValue {
  Sort sort = Sort::dense;
  DType dtype = DType::f32;
  Extents shape;
  std::uint64_t seed = 0;
  Target target = Target::value;
};

struct PairPlan {
  bool in_step = false;
  std::vector<PairValue> values;
};

PairPlan plan_for_pairs(const Call& call) {
  Dice dice(call.structure * 17 + call.values);
  PairPlan plan{dice.one_in(3), {}};
  for (int n = dice.roll(5); n > 0; --n) {
    PairValue value;
    const std::vector<Sort> sorts = plan.in_step ? std::vector{Sort::dense, Sort::sparse}
                                                 : std::vector{Sort::dense,    Sort::dense, Sort::sparse,  Sort::sparse,
                                                               Sort::mirrored, Sort::plain, Sort::variable};
    value.sort = dice.pick(sorts);
    value.dtype = dice.pick(call.pool);
    if (value.sort == Sort::sparse && value.dtype == DType::boolean) value.dtype = DType::f32;
    value.shape = {1 + dice.roll(3), dice.roll(3)};
    value.seed = dice.next() % 1000000;
    value.target = static_cast<Target>(dice.roll(target_count));
    plan.values.push_back(value);
  }
  return plan;
}

Elements elements_of(const PairValue& value, int replica) {
  return {value.dtype, value.shape,
          awkward_values(value.dtype, count_of(value.shape), value.seed * 16 + static_cast<std::uint64_t>(replica))};
}

/// 0 to 3 slices of a tensor with 4 rows.
Slices slices_of(const PairValue& value, int replica) {
  Dice dice(value.seed * 9 + static_cast<std::uint64_t>(replica));
  const std::int64_t count = dice.roll(4);
  Slices slices{
      {value.dtype, {count, value.shape[1]}, {}}, {DType::i64, {count}, Bytes(static_cast<std::size_t>(count) * 8)}, 4};
  slices.values.bytes = awkward_values(value.dtype, count_of(slices.values.shape), dice.next());
  for (std::int64_t i = 0; i < count; ++i) put<std::int64_t>(slices.indices.bytes, i, dice.roll(4));
  return slices;
}

/// A value that all replicas share, or that of the rank's only replica.
Elements shared_of(const PairValue& value, const Layout& layout, int rank) {
  return elements_of(value, value.sort == Sort::plain && layout.once_per_rank() ? rank + 1 : 0);
}

IndexedSlices indexed(const Slices& slices) {
  return {tensor_of(slices.values), tensor_of(slices.indices), slices.rows};
}

std::string text_of_slices(const IndexedSlices& slices) {
  return text_of(slices.values) + text_of(slices.indices) + std::to_string(slices.rows);
}

/// The text of the reduction of a value; nullopt if it is refused.
std::optional<std::string> reduced(ReduceOp op, const PairValue& value, const Layout& layout) {
  if (value.sort == Sort::sparse) {
    std::vector<Slices> all;
    for (int r = 0; r < layout.replicas(); ++r) all.push_back(slices_of(value, r));
    const auto result = reduce_slices(op, all);
    if (!result) return std::nullopt;
    return text_of_value(result->values) + text_of_value(result->indices) + std::to_string(result->rows);
  }
  ReplicaLeaves leaves;
  for (int r = 0; r < layout.replicas(); ++r) {
    if (value.sort == Sort::dense) {
      leaves.push_back({{Form::tensor, Share::per_replica, elements_of(value, r)}});
    } else {
      leaves.push_back(
          {{Form::tensor, value.sort == Sort::plain ? Share::plain : Share::mirrored, shared_of(value, layout, r)}});
    }
  }
  const Answer answer = reduce_leaves(op, leaves, layout);
  if (answer.error) return std::nullopt;
  return text_of_value(answer.leaves.front().elements);
}

}  // namespace

Outcome expected_of_pairs(const Call& call, const Layout& layout, int rank) {
  const PairPlan plan = plan_for_pairs(call);
  const int local = layout.counts[static_cast<std::size_t>(rank)];
  std::string text;
  for (const PairValue& value : plan.values) {
    const auto result = reduced(call.op, value, layout);
    if (!result) return {Code::invalid_argument, {}};
    const bool is_device = value.target != Target::value && value.target != Target::variable;
    text += *result + (plan.in_step ? "" : "*" + std::to_string(is_device ? 1 : local)) + ";";
  }
  if (plan.in_step) {  // first all dense ones, then all sparse ones
    std::string dense, sparse;
    for (const PairValue& value : plan.values)
      (value.sort == Sort::sparse ? sparse : dense) += *reduced(call.op, value, layout) + ";";
    return {{}, Texts(static_cast<std::size_t>(local), dense + sparse)};
  }
  return {{}, {text}};
}

Texts performed_on_pairs(Strategy& strategy, const Call& call, const Layout& layout, int rank) {
  const PairPlan plan = plan_for_pairs(call);
  const int local = layout.counts[static_cast<std::size_t>(rank)];
  const int first = layout.first(rank);
  if (plan.in_step) {
    return in_step(strategy, [&](ReplicaContext& replica) {
      std::tuple<std::vector<Tensor>, std::vector<IndexedSlices>> nest;
      for (const PairValue& value : plan.values) {
        const int id = replica.replica_id_in_sync_group();
        if (value.sort == Sort::sparse) {
          std::get<1>(nest).push_back(indexed(slices_of(value, id)));
        } else {
          std::get<0>(nest).push_back(tensor_of(elements_of(value, id)));
        }
      }
      const auto result = replica.all_reduce(op_of(call), nest);
      std::string text;
      for (const Tensor& tensor : std::get<0>(result)) text += text_of(tensor) + ";";
      for (const IndexedSlices& slices : std::get<1>(result)) text += text_of_slices(slices) + ";";
      return text;
    });
  }
  const Variable variable = strategy.variable(Tensor(DType::f32, Shape{}));
  std::vector<ReducePair> pairs;
  for (const PairValue& value : plan.values) {
    const PerReplica<Tensor> dense(local, first, [&](int i) { return tensor_of(elements_of(value, first + i)); });
    const Tensor shared = tensor_of(shared_of(value, layout, rank));
    const Destinations target = value.target == Target::device         ? Destinations(Device{})
                                : value.target == Target::other_device ? Destinations(Device{DeviceKind::cpu, 1})
                                : value.target == Target::device_name  ? Destinations("cpu:0")
                                : value.target == Target::variable     ? Destinations(variable)
                                                                       : Destinations(dense);
    switch (value.sort) {
      case Sort::dense: pairs.push_back({dense, target}); break;
      case Sort::sparse:
        pairs.push_back(
            {PerReplica<IndexedSlices>(local, first, [&](int i) { return indexed(slices_of(value, first + i)); }),
             target});
        break;
      case Sort::mirrored:
        pairs.push_back({Mirrored<Tensor>(local, [&](int) { return shared.clone(); }), target});
        break;
      case Sort::plain: pairs.push_back({shared, target}); break;
      case Sort::variable: pairs.push_back({strategy.variable(shared), target}); break;
    }
  }
  return {in_place(strategy, call.place, [&] {
    std::string text;
    for (const ReducedValue& result : strategy.extended().batch_reduce_to(op_of(call), pairs)) {
      std::visit(
          [&]<class T>(const Mirrored<T>& copies) {
            const auto text_of_copy = [&](int i) {
              if constexpr (std::same_as<T, IndexedSlices>) {
                return text_of_slices(copies.component(i));
              } else {
                return text_of(copies.component(i));
              }
            };
            for (int i = 1; i < copies.size(); ++i) {
              if (text_of_copy(i) != text_of_copy(0)) text += "different copies";
            }
            text += text_of_copy(0) + "*" + std::to_string(copies.size()) + ";";
          },
          result);
    }
    return text;
  })};
}

}  // namespace lockstep::test
