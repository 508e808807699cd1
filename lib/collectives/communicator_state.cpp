// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/communicator_state.hpp"

#include "collectives/call/check_items.hpp"
#include "collectives/host/node_operation.hpp"
#include "collectives/host/operations.hpp"
#include "collectives/internal_call.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lockstep {

std::shared_ptr<detail::Operation> Communicator::State::make_operation(const Call& call, std::span<const Item> items,
                                                                       const ReduceOptions& how) const {
  return make_host_operation(call, detail::check_items(call, layout, rank, items), how);
}

std::shared_ptr<detail::Operation> Communicator::State::make_host_operation(const Call& call,
                                                                            std::vector<detail::HostItem> checked,
                                                                            const ReduceOptions& how) const {
  if (detail::is_in_place(call, layout, rank, checked)) {
    return detail::make_in_place(call, layout, rank, std::move(checked), [&](std::vector<detail::HostItem> apart) {
      return make_host_operation(call, std::move(apart), how);
    });
  }
  const Order order = order_of(call, checked, how);
  auto descriptor = detail::make_descriptor(call, order, checked, how.name, how.only_name);
  if (order == Order::any) return detail::make_native_all_reduce(descriptor, layout, rank, std::move(checked));
  if (is_carried(call, descriptor, checked)) {
    detail::NodeGroup* const group = carry_steps->are_levels() ? nullptr : engine->transport().local_group();
    return detail::make_carried(descriptor, carry_steps, group, std::move(checked));
  }
  if (const auto schedule = schedule_of(call, checked)) {
    const bool may_be_forced = call.traits().reduces() && !call.traits().has_own_outputs();
    detail::add_schedule(descriptor, schedule->fingerprint(), may_be_forced ? schedules->forced_radices() : "");
    detail::NodeGroup* const group = schedule->begins_in_node() ? engine->transport().sharing_group() : nullptr;
    return detail::make_mixed_radix_exchange(descriptor, schedule, rank, std::move(checked), group);
  }
  if (detail::NodeGroup* const group = engine->transport().node_group()) {
    switch (call.traits().in_node) {
      case detail::NodeAlgorithm::reduce:
        if (level_schedule != nullptr && call.traits().has_schedules() &&
            detail::bytes_of_one_input(checked) <= static_cast<std::size_t>(detail::most_level_bytes)) {
          detail::add_schedule(descriptor, level_schedule->fingerprint(), "");
          return detail::make_level_reduce(descriptor, level_schedule, *group, checked);
        }
        return detail::make_node_reduce(descriptor, layout, *group, checked, detail::tuning_for(layout.ranks()),
                                        loop());
      case detail::NodeAlgorithm::copy: return detail::make_node_copy(descriptor, layout, *group, checked);
      case detail::NodeAlgorithm::none: break;
    }
  }
  if (call.traits().has_parts()) {
    detail::Transport& transport = engine->transport();
    const bool are_consecutive =
        carry_steps != nullptr && carry_steps->are_possible() && !carry_steps->are_levels();  // the ranks of each node
    detail::NodeGroup* const group = are_consecutive ? transport.local_group() : transport.node_group();
    const bool is_even = schedules != nullptr && schedules->is_even() && (are_consecutive || group == nullptr);
    return detail::make_part_exchange(descriptor, layout, rank, std::move(checked), group, is_even);
  }
  return detail::make_exchange(descriptor, layout, rank, std::move(checked));
}

std::shared_ptr<detail::ParallelLoop> Communicator::State::loop() const {
  const detail::MutexLock lock(mutex);
  return parallel_loop;
}

void Communicator::State::run(const Call& call, std::span<const Item> items, const ReduceOptions& how) {
  const detail::OperationUse use(acquire_logged(call, items, how));
  engine->run(use.operation());
}

std::int64_t Communicator::State::recover(const std::source_location& where) {
  engine->acknowledge_failure();
  const detail::EngineCall target{*engine, where};
  std::int64_t lowest = 0;
  const auto exchange = [&] {
    const std::vector<std::int64_t> own(static_cast<std::size_t>(layout.count(rank)), engine->completed());
    std::vector<std::int64_t> all(static_cast<std::size_t>(layout.replicas()));
    std::vector<ConstTensorView> inputs;
    for (const std::int64_t& completed : own) inputs.emplace_back(&completed, DType::i64, Shape{1});
    const TensorView output{all.data(), DType::i64, Shape{static_cast<std::int64_t>(all.size())}, Device{}};
    const Item item{inputs, std::span(&output, 1)};
    const ReduceOptions how = detail::internal_call("recover", where);
    const Call call = Call::all_gather();
    std::optional<detail::OperationUse> use;
    engine->run_recovery([&]() -> std::shared_ptr<detail::Operation> {
      use.emplace(propagate(call, how, [&] {
        auto made = make_operation(call, std::span(&item, 1), how);
        static_cast<void>(made->try_acquire());  // succeeds: the operation is new
        made->set_recovery();
        note_options(*made, how);
        return made;
      }));
      return use->operation();
    });
    lowest = *std::min_element(all.begin(), all.end());
  };
  detail::propagate(target, exchange, detail::FoundBy::all_ranks);
  engine->continue_at(lowest);
  return lowest;
}

std::unique_ptr<Request::State> Communicator::State::run_async(const Call& call, std::span<const Item> items,
                                                               const ReduceOptions& how) {
  const detail::EngineCall target{*engine, how.where};
  return detail::propagate(target, [&] {
    detail::OperationUse use(acquire_logged(call, items, how));
    auto state = std::make_unique<Request::State>(engine, std::move(use), [&] { return detail::blocks_of(items); });
    engine->post_async(state->use.operation());
    return state;
  });
}

/// The items of a send of `inputs` or of a receive into `outputs`; the other list is empty. A single item needs no
/// allocation.
class Communicator::State::PairItems {
 public:
  PairItems(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs) : one_{inputs, outputs} {
    if (is_single()) return;
    all_.reserve(inputs.size() + outputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) all_.push_back({inputs.subspan(i, 1), {}});
    for (std::size_t i = 0; i < outputs.size(); ++i) all_.push_back({{}, outputs.subspan(i, 1)});
  }
  [[nodiscard]] std::span<const Item> items() const noexcept { return is_single() ? std::span(&one_, 1) : all_; }

 private:
  [[nodiscard]] bool is_single() const noexcept { return one_.inputs.size() + one_.outputs.size() == 1; }

  Item one_;
  std::vector<Item> all_;
};

template <class Post>
auto Communicator::State::tell_peer(const Call& call, const ReduceOptions& how, const Post& post) {
  using Role = detail::PairOperation::Role;
  const Role role = call.traits().inputs == detail::Place::ranks ? Role::send : Role::receive;
  const bool has_peer = call.root >= 0 && call.root < layout.ranks() && call.root != rank;
  try {
    return post(role);
  } catch (const Error& error) {
    // the other rank is told of errors in this rank's arguments and of errors of this rank's GPU
    const bool is_told = error.code() == Code::invalid_argument || error.code() == Code::unavailable ||
                         error.code() == Code::deadline_exceeded;
    if (has_peer && is_told) engine->refuse_pair(role, call.root, error.what(), how.where);
    throw Error(error.code(), error.text(), {rank, -1, std::string(call.name()), -1});
  } catch (const std::exception& error) {
    if (has_peer) engine->refuse_pair(role, call.root, error.what(), how.where);
    throw;
  }
}

std::shared_ptr<detail::PairOperation> Communicator::State::acquire_pair(const Call& call,
                                                                         detail::PairOperation::Role role,
                                                                         std::span<const Item> items,
                                                                         const ReduceOptions& how) {
  const detail::CallKey key{.kind = call.kind,
                            .op = call.op,
                            .root = call.root,
                            .order = -1,
                            .name = how.name,
                            .only_name = how.only_name,
                            .place = detail::Operation::place_of(how.where),
                            .items = items};
  {
    const detail::MutexLock lock(mutex);
    auto found = message_cache.find(key);
    if (found && found->try_acquire()) return std::static_pointer_cast<detail::PairOperation>(std::move(found));
  }
  std::vector<detail::HostItem> checked = detail::check_items(call, layout, rank, items);
  // both ranks use the descriptor of a send, so that the descriptors can be compared
  const auto descriptor = detail::make_descriptor(Call::send(-1), Order::canonical, checked, how.name, how.only_name);
  auto copies = copies_of_pair(call, checked);
  auto made =
      std::make_shared<detail::PairOperation>(descriptor, role, call.root, std::move(checked), std::move(copies));
  made->note_place(how.where);
  static_cast<void>(made->try_acquire());  // succeeds: the operation is new
  if (made->is_reusable()) {
    const detail::MutexLock lock(mutex);
    message_cache.add(key, made);
  }
  return made;
}

static std::shared_ptr<detail::PairOperation> pair_in(const detail::OperationUse& use) {
  return std::static_pointer_cast<detail::PairOperation>(use.operation());
}

std::unique_ptr<Request::State> Communicator::State::post_pair(const Call& call,
                                                               std::span<const ConstTensorView> inputs,
                                                               std::span<const TensorView> outputs,
                                                               const ReduceOptions& how) {
  return tell_peer(call, how, [&](detail::PairOperation::Role role) {
    const PairItems pair(inputs, outputs);
    detail::OperationUse use(acquire_pair(call, role, pair.items(), how));
    auto state =
        std::make_unique<Request::State>(engine, std::move(use), [&] { return detail::blocks_of(pair.items()); });
    static_cast<void>(engine->post_pair(pair_in(state->use), detail::Progress::by_thread));
    return state;
  });
}

void Communicator::State::run_pair(const Call& call, std::span<const ConstTensorView> inputs,
                                   std::span<const TensorView> outputs, const ReduceOptions& how) {
  detail::AwaitedMessage awaited;
  const detail::OperationUse use = tell_peer(call, how, [&](detail::PairOperation::Role role) {
    detail::OperationUse acquired(acquire_pair(call, role, PairItems(inputs, outputs).items(), how));
    awaited = engine->post_pair(pair_in(acquired), detail::Progress::by_waiting);
    return acquired;
  });
  engine->wait(*use.operation(), awaited);
}

bool Communicator::State::is_carried(const Call& call, const detail::Descriptor& descriptor,
                                     std::span<const detail::HostItem> items) const {
  if (carry_steps == nullptr) return false;
  // radices that the environment requests are compared between ranks as part of a schedule; carried data has no
  // schedule
  if (call.traits().has_schedules() && !schedules->forced_radices().empty()) return false;
  return detail::is_carried(descriptor, *carry_steps, items);
}

std::shared_ptr<const detail::RankSchedule> Communicator::State::schedule_of(
    const Call& call, const std::vector<detail::HostItem>& items) const {
  if (schedules == nullptr) return nullptr;
  const detail::Traits& kind = call.traits();
  if (kind.is_all_to_all() || kind.pattern == detail::Pattern::barrier) return nullptr;
  std::int64_t bytes = 0;
  for (const auto& item : items) {
    const std::int64_t elements = kind.has_own_parts() ? item.whole_count(kind, layout.replicas()) : item.count();
    bytes += elements * static_cast<std::int64_t>(size_of(item.dtype));
  }
  if (kind.pattern == detail::Pattern::broadcast) return schedules->find_broadcast(bytes);
  if (kind.has_own_parts()) {
    const auto parts = static_cast<std::int64_t>(items.size()) * layout.replicas();
    if (kind.gathers() && engine->transport().node_group() != nullptr)
      return kind.has_rows() ? schedules->find_in_node(parts) : nullptr;
    return kind.has_root() ? schedules->find_rooted_parts(bytes, parts) : schedules->find_even(bytes);
  }
  return kind.has_root() ? schedules->find_reduce(bytes) : schedules->find(bytes);
}

std::shared_ptr<detail::Operation> Communicator::State::acquire(const Call& call, std::span<const Item> items,
                                                                const ReduceOptions& how) {
  const detail::EngineCall target{*engine, how.where};
  return detail::propagate(target, [&] {
    auto result = find_or_make(call, items, how);
    note_options(*result, how);
    return result;
  });
}

void Communicator::State::note_options(detail::Operation& operation, const ReduceOptions& how) noexcept {
  operation.set_fail_after(how.fail_after.value_or(std::chrono::milliseconds(0)));
  operation.set_warn_after(std::chrono::milliseconds(0));
  operation.note_place(how.where);
}

std::shared_ptr<detail::Operation> Communicator::State::find_or_make(const Call& call, std::span<const Item> items,
                                                                     const ReduceOptions& how) {
  if (is_on_gpus(items)) {
    auto made = make_gpu_operation(call, items, how);
    static_cast<void>(made->try_acquire());  // succeeds: the operation is new
    return made;
  }
  const detail::CallKey key{.kind = call.kind,
                            .op = call.op,
                            .root = call.root,
                            .order = how.order ? static_cast<int>(*how.order) : -1,
                            .name = how.name,
                            .only_name = how.only_name,
                            .place = detail::Operation::place_of(how.where),
                            .items = items};
  const bool has_key = !call.traits().has_rows();
  if (has_key) {
    const detail::MutexLock lock(mutex);
    auto found = cache.find(key);
    if (found && found->try_acquire()) return found;
  }
  auto made = propagate(call, how, [&] { return make_operation(call, items, how); });
  static_cast<void>(made->try_acquire());  // succeeds: the operation is new
  if (has_key && made->is_reusable()) {
    const detail::MutexLock lock(mutex);
    cache.add(key, made);
  }
  return made;
}

Order Communicator::State::order_asked_for(DeviceKind kind, std::optional<Order> of_call) const noexcept {
  if (force_canonical_order) return Order::canonical;
  return of_call.value_or(options.order.value_or(kind == DeviceKind::gpu ? Order::any : Order::canonical));
}

Order Communicator::State::order_of(const Call& call, const std::vector<detail::HostItem>& items,
                                    const ReduceOptions& how) const {
  if (!call.traits().has_schedules()) return Order::canonical;
  if (order_asked_for(DeviceKind::cpu, how.order) == Order::canonical) return Order::canonical;
  // after a failure, a collective of MPI may still be pending on some rank
  if (engine->next_epoch() != 0) return Order::canonical;
  const auto is_native = [&](const detail::HostItem& item) {
    const bool is_16_bit = item.dtype == DType::f16 || item.dtype == DType::bf16;
    // if an operand is a NaN or a zero, MPI's min and max of floats depend on the order of the operands, so that the
    // results of the ranks could differ
    const bool is_ordered = is_floating_point(item.dtype) && (call.op == ReduceOp::min || call.op == ReduceOp::max);
    return !is_16_bit && !is_ordered &&
           engine->transport().has_native_all_reduce(accumulation_dtype(call.op, item.dtype));
  };
  return std::all_of(items.begin(), items.end(), is_native) ? Order::any : Order::canonical;
}

}  // namespace lockstep
