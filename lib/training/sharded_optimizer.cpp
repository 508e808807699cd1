// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/sharded_optimizer.hpp>

#include "base/check.hpp"
#include "context/step.hpp"
#include "device/host/host_elements.hpp"
#include "kernels/copy.hpp"
#include "training/adam_factors.hpp"
#include "training/optimizer_state.hpp"
#include "training/steps.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/training/optimizer.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

constexpr std::string_view call_name = "ShardedOptimizer::apply_gradients";

TensorView part_of(const TensorView& view, std::int64_t first, std::int64_t count) {
  return {static_cast<float*>(view.data) + first, DType::f32, Shape{count}, view.device};
}

/// Elements that are updated before they are copied to the memory from which they are sent: few enough for the cache.
constexpr std::int64_t block = 1 << 14;

/// How the elements of one parameter are divided: first the slices of replicas 0, 1, ..., then the rest.
struct Division {
  std::int64_t slice = 0;       ///< elements of the slice of each replica
  std::int64_t rest = 0;        ///< elements of which every replica keeps the state
  std::int64_t all_slices = 0;  ///< elements of all slices together

  Division(std::int64_t elements, int replicas)
      : slice(elements / replicas), rest(elements % replicas), all_slices(slice * replicas) {}
};

/// Whether the gradients of a step are those of each replica, or reduced already.
enum class Gradients { of_replicas, reduced };

/// The tensors of one local replica in the present step, by parameter.
struct LocalReplica {
  std::vector<TensorView> gradients;
  std::vector<TensorView> parameters;
  std::vector<Tensor> slices;  ///< this replica's slices of the reduced gradients, then of the updated parameters
};

/// The list of items of one collective. Keeps its memory between steps.
class ItemList {
 public:
  /// Begins an item; `replicas` is the number of its inputs and of its outputs at most.
  void begin(std::size_t replicas) {
    if (used_ == views_.size()) views_.emplace_back();
    Views& views = views_[used_++];
    views.inputs.clear();
    views.outputs.clear();
    views.inputs.reserve(replicas);
    views.outputs.reserve(replicas);
  }
  void add(const TensorView& input, const TensorView& output) {
    views_[used_ - 1].inputs.emplace_back(input);
    views_[used_ - 1].outputs.push_back(output);
  }
  /// Forgets the items that were added since the last call of take().
  void clear() noexcept { used_ = 0; }
  /// The items that were added since the last call.
  [[nodiscard]] std::span<const Item> take() {
    items_.clear();
    for (std::size_t k = 0; k < used_; ++k) items_.push_back({views_[k].inputs, views_[k].outputs});
    used_ = 0;
    return items_;
  }

 private:
  struct Views {
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
  };
  std::vector<Views> views_;
  std::size_t used_ = 0;
  std::vector<Item> items_;
};

}  // namespace

struct ShardedOptimizer::State {
  State(Strategy& strategy, std::vector<MirroredVariable<float>> list)
      : parameters(detail::checked_parameters("ShardedOptimizer", strategy, std::move(list))) {
    const int replicas = strategy.num_replicas_in_sync();
    for (const auto& parameter : parameters) {
      divisions.emplace_back(parameter.element_count(), replicas);
      for (int i = 0; i < parameter.component_count(); ++i) {
        if (const Device place = parameter.component(i).device(); !detail::is_on_host(place)) {
          detail::throw_error(Code::invalid_argument,
                              "ShardedOptimizer: parameter \"{}\" is on {}; parameters must be in host memory",
                              parameter.name(), to_string(place));
        }
      }
    }
    locals.resize(static_cast<std::size_t>(strategy.communicator().local_replicas()));
    for (LocalReplica& local : locals) {
      local.parameters.resize(parameters.size());
      for (const Division& division : divisions) {
        if (replicas > 1) local.slices.push_back(Tensor::uninitialized(DType::f32, Shape{division.slice}));
      }
    }
  }

  /// Creates one slot of the state of each parameter: this replica's slice, then the rest. Collective.
  [[nodiscard]] std::vector<SyncOnReadVariable<float>> make_slot(Strategy& strategy, std::string_view slot) const {
    std::vector<SyncOnReadVariable<float>> variables;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      variables.push_back(
          strategy.sync_on_read_variable<float>(Tensor(DType::f32, Shape{divisions[k].slice + divisions[k].rest}),
                                                {.name = parameters[k].name() + "/" + std::string(slot) + "_slice",
                                                 .aggregation = VariableAggregation::only_first_replica,
                                                 .in_host_memory = true}));
    }
    return variables;
  }

  /// Reduces the gradients of the local replicas: slices to LocalReplica::reduced, the rest in place. Collective.
  void reduce(const Communicator& communicator, ReduceOp op, const std::source_location& where) {
    if (communicator.layout().replicas() == 1) return;
    items.clear();  // of a step that had no memory
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (divisions[k].slice == 0) continue;
      items.begin(locals.size());
      for (LocalReplica& local : locals)
        items.add(part_of(local.gradients[k], 0, divisions[k].all_slices), local.slices[k].view());
    }
    if (const auto slices = items.take(); !slices.empty())
      communicator.reduce_scatter(slices, op, {.name = "gradients", .where = where});
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (divisions[k].rest == 0) continue;
      items.begin(locals.size());
      for (LocalReplica& local : locals) {
        const TensorView rest = part_of(local.gradients[k], divisions[k].all_slices, divisions[k].rest);
        items.add(rest, rest);
      }
    }
    if (const auto rests = items.take(); !rests.empty())
      communicator.all_reduce(rests, op, {.name = "rest of gradients", .where = where});
  }

  /// Sends the slices of the parameters to all replicas. Collective.
  void gather(const Communicator& communicator, const std::source_location& where) {
    if (communicator.layout().replicas() == 1) return;
    items.clear();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (divisions[k].slice == 0) continue;
      items.begin(locals.size());
      for (LocalReplica& local : locals)
        items.add(local.slices[k].view(), part_of(local.parameters[k], 0, divisions[k].all_slices));
    }
    if (const auto slices = items.take(); !slices.empty())
      communicator.all_gather(slices, {.name = "parameters", .where = where});
  }

  /// Updates this replica's slice of each parameter, and the rest.
  void update(ReplicaContext& replica, Gradients kind, float learning_rate) {
    LocalReplica& local = locals[static_cast<std::size_t>(replica.local_replica())];
    std::optional<detail::AdamFactors> factors;
    if (adam) {
      const auto step = replica.update(
          *steps, [](const auto& count) { return static_cast<double>(++count.updatable_component().front()); });
      factors = detail::adam_factors(*adam, learning_rate, step);
    }
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      replica.update(parameters[k], [&](const Variable& variable) {
        const TensorView parameter = variable.updatable_component();
        local.parameters[k] = parameter;
        const Division& division = divisions[k];
        const TensorView& gradient = local.gradients[k];
        const auto update_part = [&](std::int64_t begin, std::int64_t count, std::int64_t in_slot,
                                     const TensorView& reduced) {
          const TensorView part = part_of(parameter, begin, count);
          const auto slot = [&](std::size_t number) {
            return part_of(detail::copy_to_write(slots[number][k]), in_slot, count);
          };
          if (factors) {
            detail::adam_step(part, slot(0), slot(1), reduced, *factors);
          } else if (!slots.empty()) {
            detail::momentum_step(part, slot(0), reduced, learning_rate, momentum);
          } else {
            detail::sgd_step(part, reduced, learning_rate);
          }
        };
        const std::int64_t begin = replica.replica_id_in_sync_group() * division.slice;
        for (std::int64_t at = 0; at < division.slice; at += block) {
          const std::int64_t count = std::min(block, division.slice - at);
          if (local.slices.empty()) {  // one replica
            update_part(at, count, at, part_of(gradient, at, count));
            continue;
          }
          const TensorView in_slice = part_of(local.slices[k].view(), at, count);
          update_part(begin + at, count, at,
                      kind == Gradients::of_replicas ? in_slice : part_of(gradient, begin + at, count));
          detail::copy_bytes(in_slice.data, part_of(parameter, begin + at, count).data, in_slice.byte_count());
        }
        if (division.rest > 0)
          update_part(division.all_slices, division.rest, division.slice,
                      part_of(gradient, division.all_slices, division.rest));
      });
    }
  }

  /// One step with the gradients of note_gradients, of all replicas.
  void apply_gradients(ReplicaContext& replica, float learning_rate, ReduceOp op, const std::source_location& where) {
    StepAccess::name_merge_call(replica, {call_name, {}});
    replica.merge_call([&](Strategy& strategy) { reduce(strategy.communicator(), op, where); });
    apply(replica, Gradients::of_replicas, learning_rate, call_name, where);
  }
  void apply(ReplicaContext& replica, Gradients kind, float learning_rate, std::string_view call,
             const std::source_location& where) {
    update(replica, kind, learning_rate);
    StepAccess::name_merge_call(replica, {call, {}});
    replica.merge_call([&](Strategy& strategy) { gather(strategy.communicator(), where); });
  }

  /// Checks and keeps the gradients of this replica. Errors begin with `call`.
  template <class List>
  void note_gradients(const ReplicaContext& replica, const List& gradients, float learning_rate,
                      std::string_view call) {
    const GradientList list(gradients);
    detail::check_gradients(parameters, list, learning_rate, call);
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (detail::is_on_host(list[k].device)) continue;
      detail::throw_error(Code::invalid_argument, "{}: gradient {} is on {}; gradients must be in host memory", call, k,
                          to_string(list[k].device));
    }
    auto& own = locals[static_cast<std::size_t>(replica.local_replica())].gradients;
    own.clear();
    for (const auto& gradient : gradients) {
      if constexpr (std::same_as<List, std::span<const TensorView>>) {
        own.push_back(gradient);
      } else {
        own.push_back(view_of(gradient));
      }
    }
  }

  std::vector<MirroredVariable<float>> parameters;
  std::vector<Division> divisions;  // by parameter
  std::vector<LocalReplica> locals;
  ItemList items;                                             // used by the thread of the first local replica
  std::vector<std::vector<SyncOnReadVariable<float>>> slots;  // by slot, then by parameter
  std::optional<AdamOptions> adam;                            // no value: Sgd
  std::optional<MirroredVariable<std::int64_t>> steps;        // of Adam
  float momentum = 0;
};

ShardedOptimizer::ShardedOptimizer(Strategy& strategy, std::vector<MirroredVariable<float>> parameters,
                                   const AdamOptions& options) try {
  detail::check_moments("ShardedOptimizer", options);
  state_ = std::make_unique<State>(strategy, std::move(parameters));
  state_->adam = options;
  state_->slots.push_back(state_->make_slot(strategy, "mean"));
  state_->slots.push_back(state_->make_slot(strategy, "square"));
  state_->steps.emplace(
      strategy.variable<std::int64_t>(0, {.name = "adam/steps", .trainable = false, .in_host_memory = true}));
} catch (const std::bad_alloc&) {  // of which the other ranks do not know
  detail::propagate_current_exception(strategy.communicator(), detail::FoundBy::this_rank);
}

ShardedOptimizer::ShardedOptimizer(Strategy& strategy, std::vector<MirroredVariable<float>> parameters,
                                   const SgdOptions& options) try {
  detail::check_momentum("ShardedOptimizer", options.momentum);
  state_ = std::make_unique<State>(strategy, std::move(parameters));
  state_->momentum = options.momentum;
  if (options.momentum > 0.0F) state_->slots.push_back(state_->make_slot(strategy, "momentum"));
} catch (const std::bad_alloc&) {
  detail::propagate_current_exception(strategy.communicator(), detail::FoundBy::this_rank);
}

ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::apply_gradients(ReplicaContext& replica, std::span<const TensorView> gradients,
                                       float learning_rate, ReduceOp op, const std::source_location& where) {
  state_->note_gradients(replica, gradients, learning_rate, call_name);
  state_->apply_gradients(replica, learning_rate, op, where);
}

void ShardedOptimizer::apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients,
                                       float learning_rate, ReduceOp op, const std::source_location& where) {
  state_->note_gradients(replica, std::span<const std::span<float>>(gradients), learning_rate, call_name);
  state_->apply_gradients(replica, learning_rate, op, where);
}

void ShardedOptimizer::apply(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
                             const std::source_location& where) {
  constexpr std::string_view call = "ShardedOptimizer::apply";
  state_->note_gradients(replica, gradients, learning_rate, call);
  state_->apply(replica, Gradients::reduced, learning_rate, call, where);
}

void ShardedOptimizer::apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate,
                             const std::source_location& where) {
  constexpr std::string_view call = "ShardedOptimizer::apply";
  state_->note_gradients(replica, gradients, learning_rate, call);
  state_->apply(replica, Gradients::reduced, learning_rate, call, where);
}

std::vector<Variable> ShardedOptimizer::state() const {
  std::vector<Variable> state;
  for (const auto& slot : state_->slots) state.insert(state.end(), slot.begin(), slot.end());
  if (state_->steps) state.push_back(*state_->steps);
  return state;
}

}  // namespace lockstep
