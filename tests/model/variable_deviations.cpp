// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on variables in which one rank differs from the others.

#include "model/deviation.hpp"
#include "model/judge.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

namespace lockstep::test {
namespace {

enum class Odd : std::uint8_t { how, variable, read, reading_call, dtype, shape, aggregation, synchronization, name };
constexpr auto odd_names = std::to_array<std::string_view>(
    {"assign in place of assign_add", "another variable written", "another variable read",
     "a reduction in place of a read", "dtype of a new variable", "shape of a new variable",
     "aggregation of a new variable", "synchronization of a new variable", "name of a new variable"});

Elements some_value(DType dtype, std::uint64_t seed) { return {dtype, {3}, awkward_values(dtype, 3, seed)}; }

std::string copies_of(const Variable& variable) {
  std::string text;
  for (int i = 0; i < variable.component_count(); ++i) text += text_of(Tensor(variable.component(i)));
  return text;
}

std::string copies_of(const ModelVariable& variable, const Layout& layout, int rank) {
  std::string text;
  for (const Elements& copy : local_copies(variable, layout, rank)) text += text_of_value(copy);
  return text;
}

/// Two variables of each synchronization, with the aggregation sum.
struct TwoVariables {
  Variable first;
  Variable second;
  ModelVariable model;
};
TwoVariables two_variables(Strategy& strategy, const Elements& initial, VariableSynchronization synchronization,
                           const Layout& layout) {
  const auto made = [&](const char* name) {
    return strategy.variable(
        tensor_of(initial),
        {.name = name, .synchronization = synchronization, .aggregation = VariableAggregation::sum});
  };
  return {made("first"), made("second"), ModelVariable(initial, synchronization, VariableAggregation::sum, layout)};
}

}  // namespace

std::string variable_deviation(Strategy& strategy, std::uint64_t seed, const Layout& layout, int rank) {
  Dice dice(seed * 5 + 3);
  const auto odd = static_cast<Odd>(dice.roll(static_cast<int>(odd_names.size())));
  const bool deviates = dice.roll(layout.ranks()) == rank;
  const DType dtype = dice.one_in(2) ? DType::f32 : static_cast<DType>(dice.roll(dtype_count - 1));
  const Elements initial = some_value(dtype, seed);
  TwoVariables written = two_variables(strategy, initial, VariableSynchronization::on_write, layout);
  TwoVariables read = two_variables(strategy, initial, VariableSynchronization::on_read, layout);
  std::vector<Elements> values;
  for (int r = 0; r < layout.replicas(); ++r)
    values.push_back(some_value(dtype, seed * 16 + static_cast<std::uint64_t>(r)));
  const auto add = [&](const Variable& variable, bool assigns) {
    strategy.run([&](ReplicaContext& replica) {
      const Tensor value = tensor_of(values[static_cast<std::size_t>(replica.replica_id_in_sync_group())]);
      assigns ? variable.assign(value) : variable.assign_add(value);
    });
  };
  const auto create = [&](DType of, const Extents& shape, VariableOptions options) {
    static_cast<void>(strategy.variable(Tensor(of, Shape(std::span<const std::int64_t>(shape))), options));
  };
  const auto call = [&] {
    VariableOptions options{.name = "new", .aggregation = VariableAggregation::sum};
    switch (odd) {
      case Odd::how: return add(written.first, deviates);
      case Odd::variable: return add(deviates ? written.second : written.first, false);
      case Odd::read: return static_cast<void>((deviates ? read.second : read.first).read());
      case Odd::reading_call:
        return static_cast<void>(deviates ? strategy.reduce("SUM", read.first) : read.first.read());
      case Odd::dtype: return create(deviates && dtype != DType::i16 ? DType::i16 : DType::f64, {3}, options);
      case Odd::shape: return create(dtype, {deviates ? 2 : 3}, options);
      case Odd::aggregation:
        if (deviates) options.aggregation = VariableAggregation::only_first_replica;
        return create(dtype, {3}, options);
      case Odd::synchronization:
        if (deviates) options.synchronization = VariableSynchronization::on_read;
        return create(dtype, {3}, options);
      case Odd::name:
        if (deviates) options.name = "other";
        return create(dtype, {3}, options);
    }
  };
  const std::string name(odd_names[static_cast<std::size_t>(odd)]);
  if (odd == Odd::dtype && dtype == DType::i16) return name;
  std::string got = "success";
  try {
    call();
  } catch (const Error& error) {
    got = error.code() == Code::mismatch ? "" : error.what();
  }
  if (!got.empty()) throw std::runtime_error(name + ", dtype " + std::string(lockstep::to_string(dtype)) + ": " + got);
  const std::string before = copies_of(written.model, layout, rank);
  for (const Variable& variable : {written.first, written.second, read.first, read.second}) {
    if (copies_of(variable) != before) throw std::runtime_error(name + ": a copy was written");
  }
  add(written.first, false);
  add(read.first, false);
  static_cast<void>(written.model.write_in_step(Write::add, values));
  static_cast<void>(read.model.write_in_step(Write::add, values));
  const Elements total = read.model.read(rank).leaves.front().elements;
  if (copies_of(written.first) != copies_of(written.model, layout, rank) ||
      copies_of(read.first) != copies_of(read.model, layout, rank) ||
      text_of(read.first.read()) != text_of_elements(Form::tensor, total.dtype, total.shape, total.bytes.data()))
    throw std::runtime_error(name + ": the next calls differ from the model");
  return name;
}

}  // namespace lockstep::test
