// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random operations on a variable.

#include "model/judge.hpp"

#include <cstring>
#include <memory>

namespace lockstep::test {
namespace {

enum class Step : std::uint8_t {
  write_in_step,
  write,
  update,
  update_with_assign,
  replica_update,
  read_in_step,
  read,
  reduce,
  gather
};
constexpr int step_count = 9;

/// An operation, equal on all ranks.
struct Operation {
  Step step = Step::read;
  Write how = Write::assign;
  Place place = Place::outside;
  ReduceOp op = ReduceOp::sum;
  std::uint64_t values = 0;
};

/// A variable and the operations on it.
struct VariablePlan {
  Elements initial;
  VariableOptions options;
  std::vector<Operation> operations;
};

VariablePlan plan_for_variable(const Call& call) {
  Dice dice(call.structure * 31 + call.values);
  VariablePlan plan;
  plan.initial.dtype = static_cast<DType>(dice.roll(dtype_count));
  for (int rank = dice.roll(3); rank > 0; --rank) plan.initial.shape.push_back(dice.one_in(8) ? 0 : 1 + dice.roll(3));
  plan.initial.bytes = awkward_values(plan.initial.dtype, count_of(plan.initial.shape), call.values);
  plan.options.name = "v";
  plan.options.synchronization =
      static_cast<VariableSynchronization>(dice.one_in(20) ? 1 : dice.pick(std::vector{0, 2, 3, 3}));
  plan.options.aggregation = static_cast<VariableAggregation>(dice.roll(4));
  for (int n = 1 + dice.roll(5); n > 0; --n) {
    Operation operation;
    operation.step = static_cast<Step>(dice.roll(step_count));
    operation.how = static_cast<Write>(dice.roll(3));
    operation.place = static_cast<Place>(dice.roll(3));
    operation.op = static_cast<ReduceOp>(dice.roll(reduce_op_count));
    operation.values = dice.next() % 1000000;
    plan.operations.push_back(operation);
  }
  return plan;
}

/// The value that a replica writes; replica -1 stands for the value that all ranks write.
Elements written_value(const VariablePlan& plan, const Operation& operation, int replica) {
  Elements value = plan.initial;
  value.bytes = awkward_values(value.dtype, count_of(value.shape),
                               operation.values * 16 + static_cast<std::uint64_t>(replica + 1));
  return value;
}

std::string text_of_answer(const Answer& answer) {
  if (answer.error) return std::string(lockstep::to_string(*answer.error));
  return text_of_value(answer.leaves.front().elements);
}

std::string described(const Operation& operation) {
  constexpr auto steps =
      std::to_array<std::string_view>({"write in step", "write", "update", "update with assign", "replica.update",
                                       "read in step", "read", "reduce", "gather"});
  constexpr auto writes = std::to_array<std::string_view>({"assign", "assign_add", "assign_sub"});
  return std::string(steps[static_cast<std::size_t>(operation.step)]) + " " +
         std::string(writes[static_cast<std::size_t>(operation.how)]) + " " +
         std::string(lockstep::to_string(operation.op)) + ": ";
}

template <class Call>
std::string attempted(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    return std::string(lockstep::to_string(error.code()));
  }
}

void write_to(const Variable& variable, Write how, const Tensor& value) {
  switch (how) {
    case Write::assign: variable.assign(value); break;
    case Write::add: variable.assign_add(value); break;
    case Write::subtract: variable.assign_sub(value); break;
  }
}

/// Whether a write of a single copy is possible without an error.
bool is_possible(const Operation& operation, const VariablePlan& plan) {
  return operation.how == Write::assign || plan.initial.dtype != DType::boolean;
}

std::string perform_operation(Strategy& strategy, const Variable& variable, const VariablePlan& plan,
                              const Operation& operation) {
  const auto value_in_step = [&](const ReplicaContext& replica) {
    return tensor_of(written_value(plan, operation, replica.replica_id_in_sync_group()));
  };
  const auto in_place_of_call = [&](const auto& body) { return in_place(strategy, operation.place, body); };
  switch (operation.step) {
    case Step::write_in_step:
      strategy.run([&](ReplicaContext& replica) { write_to(variable, operation.how, value_in_step(replica)); });
      return "done";
    case Step::write:
      return in_place_of_call([&] {
        write_to(variable, operation.how, tensor_of(written_value(plan, operation, -1)));
        return std::string("done");
      });
    case Step::update:
    case Step::update_with_assign: {
      const PerReplica<Tensor> values = strategy.run(value_in_step);
      return in_place_of_call([&] {
        strategy.extended().update(
            variable,
            [&](const Variable& of_copy, const Tensor& value) {
              if (operation.step == Step::update_with_assign) {
                write_to(of_copy, operation.how, value);
              } else if (value.byte_count() != 0) {
                std::memcpy(of_copy.updatable_component().data, value.data(), value.byte_count());
              }
            },
            values);
        return std::string("done");
      });
    }
    case Step::replica_update:
      strategy.run([&](ReplicaContext& replica) {
        replica.update(variable, [&](const Variable& of_copy) {
          const Tensor value = value_in_step(replica);
          if (value.byte_count() != 0)
            std::memcpy(of_copy.updatable_component().data, value.data(), value.byte_count());
        });
      });
      return "done";
    case Step::read_in_step: {
      std::string text;
      for (const std::string& part : in_step(strategy, [&](ReplicaContext&) { return text_of(variable.read()); }))
        text += part;
      return text;
    }
    case Step::read: return in_place_of_call([&] { return text_of(variable.read()); });
    case Step::reduce: return in_place_of_call([&] { return text_of(strategy.reduce(operation.op, variable)); });
    case Step::gather: return in_place_of_call([&] { return text_of(strategy.gather(variable, 0)); });
  }
  return {};
}

std::string expect_operation(ModelVariable& variable, const VariablePlan& plan, const Operation& operation,
                             const Layout& layout, int rank) {
  const auto text = [](const std::optional<Code>& error) {
    return error ? std::string(lockstep::to_string(*error)) : std::string("done");
  };
  switch (operation.step) {
    case Step::write_in_step: {
      std::vector<Elements> values;
      for (int r = 0; r < layout.replicas(); ++r) values.push_back(written_value(plan, operation, r));
      return text(variable.write_in_step(operation.how, values));
    }
    case Step::write: return text(variable.write(operation.how, written_value(plan, operation, -1)));
    case Step::update:
    case Step::replica_update:
    case Step::update_with_assign: {
      const Write how = operation.step == Step::update_with_assign ? operation.how : Write::assign;
      if (operation.step == Step::update_with_assign && !is_possible(operation, plan))
        return text(Code::invalid_argument);
      for (int r = 0; r < layout.replicas(); ++r) variable.update(r, how, written_value(plan, operation, r));
      return text({});
    }
    case Step::read_in_step: {
      std::string copies;
      for (const Elements& copy : local_copies(variable, layout, rank)) copies += text_of_value(copy);
      return copies;
    }
    case Step::read:
    case Step::gather: return text_of_answer(variable.read(rank));
    case Step::reduce: return text_of_answer(variable.reduce(operation.op, rank));
  }
  return {};
}

}  // namespace

Texts expected_of_variable(const Call& call, const Layout& layout, int rank) {
  const VariablePlan plan = plan_for_variable(call);
  if (!ModelVariable::exists(plan.initial.dtype, plan.options.synchronization, plan.options.aggregation))
    return {std::string(lockstep::to_string(Code::invalid_argument))};
  ModelVariable variable(plan.initial, plan.options.synchronization, plan.options.aggregation, layout);
  Texts texts;
  for (const Operation& operation : plan.operations) {
    texts.push_back(described(operation) + expect_operation(variable, plan, operation, layout, rank));
    for (const Elements& copy : local_copies(variable, layout, rank)) texts.push_back(text_of_value(copy));
  }
  return texts;
}

Texts performed_on_variable(Strategy& strategy, const Call& call, const Layout& /*layout*/, int /*rank*/) {
  const VariablePlan plan = plan_for_variable(call);
  std::optional<Variable> variable;
  const std::string made = attempted([&] {
    variable = strategy.variable(tensor_of(plan.initial), plan.options);
    return std::string("done");
  });
  if (!variable) return {made};
  Texts texts;
  for (const Operation& operation : plan.operations) {
    texts.push_back(described(operation) +
                    attempted([&] { return perform_operation(strategy, *variable, plan, operation); }));
    for (int i = 0; i < variable->component_count(); ++i) texts.push_back(text_of(Tensor(variable->component(i))));
  }
  return texts;
}

}  // namespace lockstep::test
