// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/communicator.hpp>

#include "base/check.hpp"
#include "cluster/settings.hpp"
#include "collectives/engine.hpp"
#include "collectives/host/exchange.hpp"
#include "collectives/host/mixed_radix_exchange.hpp"
#include "collectives/host/native.hpp"
#include "collectives/host/node_copy.hpp"
#include "collectives/host/node_reduce.hpp"
#include "collectives/host/part_exchange.hpp"
#include "collectives/host/schedule_book.hpp"
#include "collectives/make_communicator.hpp"
#include "collectives/owned_items.hpp"
#include "collectives/plan_cache.hpp"
#include "collectives/plan_state.hpp"
#include "collectives/request_state.hpp"
#include "collectives/selection.hpp"
#include "collectives/split.hpp"
#include "collectives/validate.hpp"
#include "device/host/arena.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace lockstep {

using detail::Call;
using detail::OperationKind;

struct Communicator::State {
  CommunicatorOptions options;
  bool force_canonical_order = false;
  ReplicaLayout layout;
  int rank = 0;
  std::shared_ptr<detail::Engine> engine;
  std::shared_ptr<detail::ScheduleBook> schedules;
  mutable std::mutex mutex;
  std::shared_ptr<detail::SharedLoop> shared_loop;  // guarded by mutex
  detail::PlanCache cache;                          // guarded by mutex

  /// Makes the operation of one call. What this rank finds wrong is told to the others, then thrown.
  [[nodiscard]] std::shared_ptr<detail::Operation> operation(const Call& call, std::span<const Item> items,
                                                             const ReduceOptions& how) const {
    try {
      return make_operation(call, items, how);
    } catch (const Error& error) {
      engine->announce_failure(error.text());
      throw Error(error.code(), error.text(), {rank, -1, std::string(to_string(call.kind)), -1});
    }
  }

  [[nodiscard]] std::shared_ptr<detail::Operation> make_operation(const Call& call, std::span<const Item> items,
                                                                  const ReduceOptions& how) const {
    std::vector<detail::HostItem> checked = detail::check_items(call, layout, items);
    const Order order = order_of(call, checked, how);
    std::vector<detail::ItemSignature> signatures;
    signatures.reserve(checked.size());
    for (const auto& item : checked) signatures.push_back({item.dtype, item.shape});
    auto descriptor = detail::make_descriptor(call.kind, call.op, order, call.root, signatures, how.name);
    // the rows of an all_to_all_v are each rank's own
    if (call.kind != OperationKind::all_to_all_v && !call.rows.empty()) detail::add_rows(descriptor, call.rows);
    if (order == Order::any) return detail::make_native_all_reduce(descriptor, layout, rank, std::move(checked));
    if (const auto schedule = schedule_of(call, checked)) {
      detail::add_schedule(descriptor, schedule->fingerprint, schedules->forced_radices());
      detail::NodeGroup* const group = schedule->begins_in_node() ? engine->transport().local_group() : nullptr;
      return detail::make_mixed_radix_exchange(descriptor, schedule, rank, std::move(checked), group);
    }
    if (detail::NodeGroup* const group = engine->transport().node_group()) {
      if (reduces(call)) return detail::make_node_reduce(descriptor, layout, *group, checked, {}, loop());
      if (copies(call)) return detail::make_node_copy(descriptor, layout, *group, checked);
    }
    if (moves_parts(call)) return detail::make_part_exchange(descriptor, layout, rank, std::move(checked));
    return detail::make_exchange(descriptor, layout, rank, std::move(checked));
  }

  [[nodiscard]] static bool reduces(const Call& call) {
    return call.kind == OperationKind::all_reduce || call.kind == OperationKind::reduce ||
           call.kind == OperationKind::reduce_scatter;
  }
  [[nodiscard]] static bool copies(const Call& call) {
    return call.kind == OperationKind::broadcast || call.kind == OperationKind::all_gather ||
           call.kind == OperationKind::gather || call.kind == OperationKind::barrier;
  }

  [[nodiscard]] std::shared_ptr<detail::SharedLoop> loop() const {
    const std::scoped_lock lock(mutex);
    return shared_loop;
  }

  [[nodiscard]] static bool moves_parts(const Call& call) {
    return call.kind == OperationKind::scatter || call.kind == OperationKind::scatter_v ||
           call.kind == OperationKind::all_to_all || call.kind == OperationKind::all_to_all_v;
  }

  void run(const Call& call, std::span<const Item> items, const ReduceOptions& how) {
    const detail::OperationUse use(acquire(call, items, how));
    engine->run(use.operation());
  }

  [[nodiscard]] std::unique_ptr<Request::State> run_async(const Call& call, std::span<const Item> items,
                                                          const ReduceOptions& how) {
    auto state = std::make_unique<Request::State>(engine, acquire(call, items, how));
    engine->post_async(state->use.operation());
    return state;
  }

  /// Starts one end of a message. What this rank finds wrong is told to the other, then thrown.
  [[nodiscard]] std::unique_ptr<Request::State> post_pair(const Call& call, std::span<const Item> items,
                                                          const ReduceOptions& how, detail::Progress progress) {
    using Role = detail::PairOperation::Role;
    const Role role = call.kind == OperationKind::send ? Role::send : Role::receive;
    try {
      std::vector<detail::HostItem> checked = detail::check_items(call, layout, items);
      std::vector<detail::ItemSignature> signatures;
      for (const auto& item : checked) signatures.push_back({item.dtype, item.shape});
      // both ends say send: they are compared
      const auto descriptor =
          detail::make_descriptor(OperationKind::send, ReduceOp::sum, Order::canonical, -1, signatures, how.name);
      auto made = std::make_shared<detail::PairOperation>(descriptor, role, call.root, std::move(checked));
      static_cast<void>(made->try_acquire());  // nobody else has it
      auto state = std::make_unique<Request::State>(engine, made);
      engine->post_pair(made, progress);
      return state;
    } catch (const Error& error) {
      const bool is_peer = call.root >= 0 && call.root < layout.ranks() && call.root != rank;
      if (is_peer && error.code() == Code::invalid_argument) engine->refuse_pair(role, call.root, error.text());
      throw Error(error.code(), error.text(), {rank, -1, std::string(to_string(call.kind)), -1});
    }
  }

  /// The ranks that come together with this one, in order. Collective.
  [[nodiscard]] std::vector<int> members_of_split(const detail::SplitClaim& claim) {
    // in order with all that was posted before, and with a deadline, which splitting itself has not
    std::vector<detail::SplitClaim> claims(static_cast<std::size_t>(layout.replicas()));
    const ConstTensorView mine{&claim, DType::i32, Shape{2}};
    const std::vector<ConstTensorView> inputs(static_cast<std::size_t>(layout.count(rank)), mine);
    const TensorView all{claims.data(), DType::i32, Shape{2 * layout.replicas()}, Device{}};
    const Item item{inputs, std::span(&all, 1)};
    run({OperationKind::all_gather, ReduceOp::sum, -1, rank}, std::span(&item, 1),
        {.order = std::nullopt, .name = "split"});
    std::vector<detail::SplitClaim> by_rank;
    for (int other = 0; other < layout.ranks(); ++other)
      by_rank.push_back(claims[static_cast<std::size_t>(layout.first(other))]);
    return detail::split_members(by_rank, rank);
  }

  /// None: direct exchange, or the shared memory of the node.
  [[nodiscard]] std::shared_ptr<const detail::RankSchedule> schedule_of(
      const Call& call, const std::vector<detail::HostItem>& items) const {
    if (call.kind != OperationKind::all_reduce) return nullptr;
    std::int64_t bytes = 0;
    for (const auto& item : items) bytes += item.count() * static_cast<std::int64_t>(size_of(item.dtype));
    return schedules->find(bytes);
  }

  /// The operation that served the same call before, if it is free and has not failed; else a new one.
  [[nodiscard]] std::shared_ptr<detail::Operation> acquire(const Call& call, std::span<const Item> items,
                                                           const ReduceOptions& how) {
    auto result = acquire_for_any_time(call, items, how);
    result->fail_after = how.fail_after.value_or(std::chrono::milliseconds(0));
    return result;
  }

  [[nodiscard]] std::shared_ptr<detail::Operation> acquire_for_any_time(const Call& call, std::span<const Item> items,
                                                                        const ReduceOptions& how) {
    const detail::CallKey key{call.kind, call.op, call.root, how.order ? static_cast<int>(*how.order) : -1,
                              how.name,  items};
    if (reduces(call) || copies(call)) {
      const std::scoped_lock lock(mutex);
      auto found = cache.find(key);
      if (found && found->try_acquire()) return found;
    }
    auto made = operation(call, items, how);
    static_cast<void>(made->try_acquire());  // nobody else has it
    if (made->is_reusable()) {
      const std::scoped_lock lock(mutex);
      cache.add(key, made);
    }
    return made;
  }

  /// Any order is honoured where the backend can reduce every item; the canonical one is an instance of any.
  [[nodiscard]] Order order_of(const Call& call, const std::vector<detail::HostItem>& items,
                               const ReduceOptions& how) const {
    if (force_canonical_order || call.kind != OperationKind::all_reduce) return Order::canonical;
    if (how.order.value_or(options.order) == Order::canonical) return Order::canonical;
    const auto is_native = [&](const detail::HostItem& item) {
      const bool is_16_bit = item.dtype == DType::f16 || item.dtype == DType::bf16;
      // MPI's min and max of floats depend on the order of operands where a NaN or a zero is among them: ranks could
      // differ
      const bool is_ordered = is_floating_point(item.dtype) && (call.op == ReduceOp::min || call.op == ReduceOp::max);
      return !is_16_bit && !is_ordered &&
             engine->transport().has_native_all_reduce(accumulation_dtype(call.op, item.dtype));
    };
    return std::all_of(items.begin(), items.end(), is_native) ? Order::any : Order::canonical;
  }
};

Communicator::Communicator(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

int Communicator::rank() const noexcept { return state_->rank; }
int Communicator::size() const noexcept { return state_->layout.ranks(); }
const ReplicaLayout& Communicator::layout() const noexcept { return state_->layout; }
const CommunicatorOptions& Communicator::options() const noexcept { return state_->options; }
std::string_view Communicator::transport() const noexcept { return state_->engine->transport().name(); }
int Communicator::nodes() const noexcept { return state_->engine->transport().nodes(); }

Communicator Communicator::duplicate(const CommunicatorOptions& options) const {
  // in order with all that was posted before, and with a deadline, which duplicating itself has not
  state_->run({OperationKind::barrier, ReduceOp::sum, -1, rank()}, {}, {.order = std::nullopt, .name = "duplicate"});
  return CommunicatorAccess::make(state_->engine->duplicate_transport(), options, std::nullopt, {},
                                  state_->engine->family());
}

std::optional<Communicator> Communicator::split(int color, int key, const CommunicatorOptions& options) const {
  const std::vector<int> members = state_->members_of_split({color, key});
  auto transport = state_->engine->split_transport(members);
  if (!transport) return std::nullopt;
  return CommunicatorAccess::make(std::move(transport), options, std::nullopt, {}, state_->engine->family());
}

void Communicator::announce_failure(std::string_view text) { state_->engine->announce_failure(std::string(text)); }

void Communicator::all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) {
  state_->run({OperationKind::all_reduce, op, -1, rank()}, items, options);
}
Request Communicator::all_reduce_async(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::all_reduce, op, -1, rank()}, items, options));
}
Plan Communicator::prepare_all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) {
  auto state = std::make_unique<Plan::State>();
  state->engine = state_->engine;
  // what the views refer to is copied once, here
  const Call call{OperationKind::all_reduce, op, -1, rank()};
  state->make = [owner = state_, call, items = detail::OwnedItems(items), order = options.order,
                 name = std::string(options.name), fail_after = options.fail_after] {
    auto made = owner->make_operation(call, items.get(), {order, name});
    made->fail_after = fail_after.value_or(std::chrono::milliseconds(0));
    return made;
  };
  state->operation = state->make();
  const detail::Arena& arena = detail::Arena::of_this_process();
  state->frees = arena.frees();
  const auto watch = [&](const ConstTensorView& view) {
    if (view.byte_count() != 0 && arena.contains(view.data, view.byte_count()))
      state->arena_buffers.push_back({view.data, view.byte_count()});
  };
  for (const Item& item : items) {
    std::for_each(item.inputs.begin(), item.inputs.end(), watch);
    std::for_each(item.outputs.begin(), item.outputs.end(), watch);
  }
  return Plan(std::move(state));
}
void Communicator::reduce(std::span<const Item> items, ReduceOp op, int root, const ReduceOptions& options) {
  state_->run({OperationKind::reduce, op, root, rank()}, items, options);
}
Request Communicator::reduce_async(std::span<const Item> items, ReduceOp op, int root, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::reduce, op, root, rank()}, items, options));
}
void Communicator::reduce_scatter(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) {
  state_->run({OperationKind::reduce_scatter, op, -1, rank()}, items, options);
}
Request Communicator::reduce_scatter_async(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::reduce_scatter, op, -1, rank()}, items, options));
}
void Communicator::all_gather(std::span<const Item> items, const ReduceOptions& options) {
  state_->run({OperationKind::all_gather, ReduceOp::sum, -1, rank()}, items, options);
}
Request Communicator::all_gather_async(std::span<const Item> items, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::all_gather, ReduceOp::sum, -1, rank()}, items, options));
}
void Communicator::gather(std::span<const Item> items, int root, const ReduceOptions& options) {
  state_->run({OperationKind::gather, ReduceOp::sum, root, rank()}, items, options);
}
Request Communicator::gather_async(std::span<const Item> items, int root, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::gather, ReduceOp::sum, root, rank()}, items, options));
}
void Communicator::all_gather_v(std::span<const Item> items, std::span<const std::int64_t> rows,
                                const ReduceOptions& options) {
  state_->run({OperationKind::all_gather_v, ReduceOp::sum, -1, rank(), rows}, items, options);
}
Request Communicator::all_gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows,
                                         const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::all_gather_v, ReduceOp::sum, -1, rank(), rows}, items, options));
}
void Communicator::gather_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                            const ReduceOptions& options) {
  state_->run({OperationKind::gather_v, ReduceOp::sum, root, rank(), rows}, items, options);
}
Request Communicator::gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                     const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::gather_v, ReduceOp::sum, root, rank(), rows}, items, options));
}
void Communicator::scatter(std::span<const Item> items, int root, const ReduceOptions& options) {
  state_->run({OperationKind::scatter, ReduceOp::sum, root, rank()}, items, options);
}
Request Communicator::scatter_async(std::span<const Item> items, int root, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::scatter, ReduceOp::sum, root, rank()}, items, options));
}
void Communicator::scatter_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                             const ReduceOptions& options) {
  state_->run({OperationKind::scatter_v, ReduceOp::sum, root, rank(), rows}, items, options);
}
Request Communicator::scatter_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                      const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::scatter_v, ReduceOp::sum, root, rank(), rows}, items, options));
}
void Communicator::all_to_all(std::span<const Item> items, const ReduceOptions& options) {
  state_->run({OperationKind::all_to_all, ReduceOp::sum, -1, rank()}, items, options);
}
Request Communicator::all_to_all_async(std::span<const Item> items, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::all_to_all, ReduceOp::sum, -1, rank()}, items, options));
}
void Communicator::all_to_all_v(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                                std::span<const std::int64_t> receive_rows, const ReduceOptions& options) {
  state_->run({OperationKind::all_to_all_v, ReduceOp::sum, -1, rank(), send_rows, receive_rows}, items, options);
}
Request Communicator::all_to_all_v_async(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                                         std::span<const std::int64_t> receive_rows, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::all_to_all_v, ReduceOp::sum, -1, rank(), send_rows, receive_rows},
                                   items, options));
}
void Communicator::broadcast(std::span<const Item> items, int root, const ReduceOptions& options) {
  state_->run({OperationKind::broadcast, ReduceOp::sum, root, rank()}, items, options);
}
Request Communicator::broadcast_async(std::span<const Item> items, int root, const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::broadcast, ReduceOp::sum, root, rank()}, items, options));
}
void Communicator::barrier(const ReduceOptions& options) {
  state_->run({OperationKind::barrier, ReduceOp::sum, -1, rank()}, {}, options);
}
Request Communicator::barrier_async(const ReduceOptions& options) {
  return Request(state_->run_async({OperationKind::barrier, ReduceOp::sum, -1, rank()}, {}, options));
}

namespace {

/// An item for each tensor.
std::vector<Item> items_of(std::span<const ConstTensorView> inputs) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < inputs.size(); ++i) items.push_back({inputs.subspan(i, 1), {}});
  return items;
}
std::vector<Item> items_of(std::span<const TensorView> outputs) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < outputs.size(); ++i) items.push_back({{}, outputs.subspan(i, 1)});
  return items;
}

}  // namespace

void Communicator::send(std::span<const ConstTensorView> tensors, int target, const ReduceOptions& options) {
  const Call call{OperationKind::send, ReduceOp::sum, target, rank()};
  Request(state_->post_pair(call, items_of(tensors), options, detail::Progress::by_waiting)).wait();
}
Request Communicator::send_async(std::span<const ConstTensorView> tensors, int target, const ReduceOptions& options) {
  const Call call{OperationKind::send, ReduceOp::sum, target, rank()};
  return Request(state_->post_pair(call, items_of(tensors), options, detail::Progress::by_thread));
}
void Communicator::recv(std::span<const TensorView> tensors, int source, const ReduceOptions& options) {
  const Call call{OperationKind::recv, ReduceOp::sum, source, rank()};
  Request(state_->post_pair(call, items_of(tensors), options, detail::Progress::by_waiting)).wait();
}
Request Communicator::recv_async(std::span<const TensorView> tensors, int source, const ReduceOptions& options) {
  const Call call{OperationKind::recv, ReduceOp::sum, source, rank()};
  return Request(state_->post_pair(call, items_of(tensors), options, detail::Progress::by_thread));
}

void Communicator::all_reduce_in_place(TensorView values, ReduceOp op, const ReduceOptions& options) {
  const ConstTensorView input = values;
  const Item item{std::span(&input, 1), std::span(&values, 1)};
  all_reduce(std::span(&item, 1), op, options);
}

void CommunicatorAccess::share_loops(Communicator& communicator, std::shared_ptr<detail::SharedLoop> loop) {
  const std::scoped_lock lock(communicator.state_->mutex);
  communicator.state_->shared_loop = std::move(loop);
}

void CommunicatorAccess::count_merge(const Communicator& communicator, std::uint64_t run) {
  communicator.state_->engine->count_merge(run);
}

Communicator CommunicatorAccess::make(std::unique_ptr<detail::Transport> transport, const CommunicatorOptions& options,
                                      std::optional<ReplicaLayout> layout, const detail::ScheduleOptions& schedules,
                                      std::shared_ptr<detail::Family> family) {
  const detail::Settings settings = detail::settings_from_environment();
  auto state = std::make_shared<Communicator::State>();
  state->options = options;
  state->force_canonical_order = settings.force_canonical_order;
  state->rank = transport->rank();
  constexpr std::chrono::milliseconds most = std::chrono::hours(24 * 365 * 10);
  const auto fail_after = std::min(options.fail_after.value_or(settings.fail_after), most);
  const auto warn_after = std::min(options.warn_after.value_or(std::min(settings.warn_after, fail_after)), most);
  state->options.fail_after = fail_after;
  state->options.warn_after = warn_after;
  state->layout = layout ? *layout : ReplicaLayout(std::vector<int>(static_cast<std::size_t>(transport->size()), 1));
  state->engine = std::make_shared<detail::Engine>(
      std::move(transport),
      detail::EngineOptions{warn_after, fail_after, options.name, options.local_replicas, std::move(family)});
  Communicator communicator(state);
  // ranks may have given wrong values: found where all can see them
  if (!layout && communicator.size() == 1) {
    state->layout = ReplicaLayout({options.local_replicas});
  } else if (!layout) {
    std::vector<int> counts(static_cast<std::size_t>(communicator.size()));
    const ConstTensorView mine{&options.local_replicas, dtype_of<int>, Shape{1}};
    const TensorView all{counts.data(), dtype_of<int>, Shape{communicator.size()}, Device{}};
    const Item item{std::span(&mine, 1), std::span(&all, 1)};
    communicator.all_gather(std::span(&item, 1), {.order = std::nullopt, .name = "replica counts"});
    state->layout = ReplicaLayout(counts);
  }
  detail::ScheduleOptions chosen = schedules;
  if (chosen.radices.empty()) chosen.radices = settings.radices;
  state->schedules = std::make_shared<detail::ScheduleBook>(
      state->layout, state->engine->transport().node_leaders(), state->rank, chosen,
      state->engine->transport().local_group() != nullptr ? detail::NodeMeans::memory : detail::NodeMeans::messages);
  if (fail_after.count() <= 0 || warn_after.count() <= 0) {
    communicator.announce_failure("fail_after or warn_after is not positive");
    detail::throw_error(Code::invalid_argument,
                        "communicator \"{}\": warn_after is {} ms and fail_after {} ms; both must be positive",
                        options.name, warn_after.count(), fail_after.count());
  }
  return communicator;
}

std::string CommunicatorAccess::selection(const Communicator& communicator, std::int64_t bytes, BufferKind buffers) {
  if (bytes < 0) detail::throw_error(Code::invalid_argument, "selected_schedule: bytes is {}; give 0 or more", bytes);
  const Communicator::State& state = *communicator.state_;
  const bool shares = state.engine->transport().node_group() != nullptr;
  return detail::selection(state.layout, shares ? detail::Reach::shared_memory : detail::Reach::messages,
                           *state.schedules, bytes, buffers);
}

}  // namespace lockstep
