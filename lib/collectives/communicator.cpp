// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/communicator.hpp>

#include "base/check.hpp"
#include "cluster/hash_log.hpp"
#include "cluster/settings.hpp"
#include "collectives/communicator_state.hpp"
#include "collectives/engine/leaving.hpp"
#include "collectives/internal_call.hpp"
#include "collectives/make_communicator.hpp"
#include "collectives/plan_state.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep {

using detail::Call;

Communicator::Communicator(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

int Communicator::rank() const noexcept { return state_->rank; }
int Communicator::size() const noexcept { return state_->layout.ranks(); }
const ReplicaLayout& Communicator::layout() const noexcept { return state_->layout; }
const CommunicatorOptions& Communicator::options() const noexcept { return state_->options; }
Order Communicator::order(DeviceKind kind) const noexcept { return state_->order_asked_for(kind, {}); }
std::string_view Communicator::transport() const noexcept { return state_->engine->transport().name(); }
std::string_view Communicator::transport_reason() const noexcept { return state_->engine->transport().why_chosen(); }
int Communicator::nodes() const noexcept { return state_->engine->transport().nodes(); }

Communicator Communicator::duplicate(const CommunicatorOptions& options, std::source_location where) const {
  return CommunicatorAccess::duplicate(*this, options, {.name = "duplicate", .where = where});
}

void Communicator::abort(std::string_view text, std::source_location where) const {
  state_->engine->abort(std::string(text), where);
}

std::int64_t Communicator::completed_operations() const { return state_->engine->completed(); }

std::int64_t Communicator::recover(std::source_location where) const { return state_->recover(where); }

void detail::propagate_current_exception(const Communicator& communicator, FoundBy found_by) {
  propagate_current_exception(CommunicatorAccess::engine(communicator), found_by);
}

void Communicator::all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) const {
  state_->run(Call::all_reduce(op), items, options);
}
Request Communicator::all_reduce_async(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_reduce(op), items, options));
}
Plan Communicator::prepare_all_reduce(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) const {
  return Plan(State::prepare(state_, Call::all_reduce(op), items, options));
}
void Communicator::reduce(std::span<const Item> items, ReduceOp op, int root, const ReduceOptions& options) const {
  state_->run(Call::reduce(op, root), items, options);
}
Request Communicator::reduce_async(std::span<const Item> items, ReduceOp op, int root,
                                   const ReduceOptions& options) const {
  return Request(state_->run_async(Call::reduce(op, root), items, options));
}
void Communicator::reduce_scatter(std::span<const Item> items, ReduceOp op, const ReduceOptions& options) const {
  state_->run(Call::reduce_scatter(op), items, options);
}
Request Communicator::reduce_scatter_async(std::span<const Item> items, ReduceOp op,
                                           const ReduceOptions& options) const {
  return Request(state_->run_async(Call::reduce_scatter(op), items, options));
}
void Communicator::all_gather(std::span<const Item> items, const ReduceOptions& options) const {
  state_->run(Call::all_gather(), items, options);
}
Request Communicator::all_gather_async(std::span<const Item> items, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_gather(), items, options));
}
void Communicator::gather(std::span<const Item> items, int root, const ReduceOptions& options) const {
  state_->run(Call::gather(root), items, options);
}
Request Communicator::gather_async(std::span<const Item> items, int root, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::gather(root), items, options));
}
void Communicator::all_gather_v(std::span<const Item> items, std::span<const std::int64_t> rows,
                                const ReduceOptions& options) const {
  state_->run(Call::all_gather_v(rows), items, options);
}
Request Communicator::all_gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows,
                                         const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_gather_v(rows), items, options));
}
void Communicator::gather_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                            const ReduceOptions& options) const {
  state_->run(Call::gather_v(rows, root), items, options);
}
Request Communicator::gather_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                     const ReduceOptions& options) const {
  return Request(state_->run_async(Call::gather_v(rows, root), items, options));
}
void Communicator::scatter(std::span<const Item> items, int root, const ReduceOptions& options) const {
  state_->run(Call::scatter(root), items, options);
}
Request Communicator::scatter_async(std::span<const Item> items, int root, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::scatter(root), items, options));
}
void Communicator::scatter_v(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                             const ReduceOptions& options) const {
  state_->run(Call::scatter_v(rows, root), items, options);
}
Request Communicator::scatter_v_async(std::span<const Item> items, std::span<const std::int64_t> rows, int root,
                                      const ReduceOptions& options) const {
  return Request(state_->run_async(Call::scatter_v(rows, root), items, options));
}
void Communicator::all_to_all(std::span<const Item> items, const ReduceOptions& options) const {
  state_->run(Call::all_to_all(), items, options);
}
Request Communicator::all_to_all_async(std::span<const Item> items, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_to_all(), items, options));
}
void Communicator::all_to_all_v(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                                std::span<const std::int64_t> receive_rows, const ReduceOptions& options) const {
  state_->run(Call::all_to_all_v(send_rows, receive_rows), items, options);
}
Request Communicator::all_to_all_v_async(std::span<const Item> items, std::span<const std::int64_t> send_rows,
                                         std::span<const std::int64_t> receive_rows,
                                         const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_to_all_v(send_rows, receive_rows), items, options));
}
void Communicator::broadcast(std::span<const Item> items, int root, const ReduceOptions& options) const {
  state_->run(Call::broadcast(root), items, options);
}
Request Communicator::broadcast_async(std::span<const Item> items, int root, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::broadcast(root), items, options));
}
void Communicator::barrier(const ReduceOptions& options) const { state_->run(Call::barrier(), {}, options); }
Request Communicator::barrier_async(const ReduceOptions& options) const {
  return Request(state_->run_async(Call::barrier(), {}, options));
}

void Communicator::send(std::span<const ConstTensorView> tensors, int target, const ReduceOptions& options) const {
  state_->run_pair(Call::send(target), tensors, {}, options);
}
Request Communicator::send_async(std::span<const ConstTensorView> tensors, int target,
                                 const ReduceOptions& options) const {
  return Request(state_->post_pair(Call::send(target), tensors, {}, options));
}
void Communicator::recv(std::span<const TensorView> tensors, int source, const ReduceOptions& options) const {
  state_->run_pair(Call::recv(source), {}, tensors, options);
}
Request Communicator::recv_async(std::span<const TensorView> tensors, int source, const ReduceOptions& options) const {
  return Request(state_->post_pair(Call::recv(source), {}, tensors, options));
}

int CommunicatorAccess::replicas_on_same_processors(const Communicator& communicator) {
  int replicas = 0;
  for (const int rank : engine(communicator).transport().ranks_on_same_processors())
    replicas += communicator.layout().count(rank);
  return replicas;
}

void CommunicatorAccess::share_loops(Communicator& communicator, std::shared_ptr<detail::ParallelLoop> loop) {
  const detail::MutexLock lock(communicator.state_->mutex);
  communicator.state_->parallel_loop = std::move(loop);
}

detail::Engine& CommunicatorAccess::engine(const Communicator& communicator) { return *communicator.state_->engine; }

void CommunicatorAccess::set_test_hooks(Communicator& communicator, const detail::TestHooks* hooks) {
  if (detail::NodeGroup* const group = communicator.state_->engine->transport().sharing_group())
    group->set_test_hooks(hooks);
}

void CommunicatorAccess::forget_propagated(const Communicator& communicator) {
  communicator.state_->engine->forget_propagated();
}

void CommunicatorAccess::count_merge(const Communicator& communicator, std::uint64_t run) {
  communicator.state_->engine->count_merge(run);
}

std::int32_t detail::timeout_ms(const CommunicatorOptions& options) {
  const auto timeout = options.fail_after.value_or(settings_from_environment().fail_after);
  using Limits = std::numeric_limits<std::int32_t>;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(timeout.count(), Limits::min(), Limits::max()));
}

void detail::require_equal_timeouts(std::string_view call, const RankTimeout& a, const RankTimeout& b) {
  if (a.milliseconds == b.milliseconds) return;
  throw Error(Code::mismatch,
              fmt::format("{}: fail_after is {} ms on rank {} but {} ms on rank {}; it must be equal on all ranks "
                          "(LOCKSTEP_TIMEOUT sets the default)",
                          call, a.milliseconds, a.rank, b.milliseconds, b.rank),
              {b.rank, -1, std::string(call), -1});
}

void detail::require_replicas(std::string_view call, int rank, int local_replicas) {
  if (local_replicas >= 1) return;
  throw_error(Code::invalid_argument, "{}: local_replicas is {} on rank {}; it must be at least 1", call,
              local_replicas, rank);
}

Communicator CommunicatorAccess::make(std::unique_ptr<detail::Transport> transport, const CommunicatorOptions& options,
                                      std::optional<ReplicaLayout> layout, const detail::ScheduleOptions& schedules,
                                      std::shared_ptr<detail::Family> family) {
  std::shared_ptr<detail::Transport> kept;  // outlives an engine that cannot be made
  std::optional<detail::Settings> settings;
  std::optional<Communicator> communicator;
  try {
    kept = std::move(transport);
    settings = detail::settings_from_environment();
    if (!family) family = std::make_shared<detail::Family>();
    communicator = begin(kept, options, layout, *settings, std::move(family));
  } catch (const std::exception& error) {
    // else the parent tells the others, or they wait in a call that this rank may repeat
    if (!layout) detail::leave_before_begin(kept ? *kept : *transport, options.name, error.what());
    throw;
  }
  // every rank finds an error in the options, but only this rank knows that it has no memory
  detail::propagate(
      *communicator, [&] { complete(*communicator, options, layout.has_value(), schedules, *settings); },
      detail::FoundBy::all_ranks);
  return *communicator;
}

/// The communicator without what the ranks have to agree on.
Communicator CommunicatorAccess::begin(const std::shared_ptr<detail::Transport>& transport,
                                       const CommunicatorOptions& options, const std::optional<ReplicaLayout>& layout,
                                       const detail::Settings& settings, std::shared_ptr<detail::Family> family) {
  auto state = std::make_shared<Communicator::State>();
  state->options = options;
  state->force_canonical_order = settings.force_canonical_order;
  state->rank = transport->rank();
  constexpr std::chrono::milliseconds most = std::chrono::hours(24 * 365 * 10);
  const auto fail_after = std::min(options.fail_after.value_or(settings.fail_after), most);
  const auto warn_after = std::min(options.warn_after.value_or(std::min(settings.warn_after, fail_after)), most);
  const auto fail_after_total = std::min(options.fail_after_total.value_or(settings.fail_after_total), most);
  state->options.fail_after = fail_after;
  state->wait_claim.emplace(fail_after);
  state->options.warn_after = warn_after;
  if (fail_after_total.count() != 0) state->options.fail_after_total = fail_after_total;
  state->layout = layout ? *layout : ReplicaLayout(std::vector<int>(static_cast<std::size_t>(transport->size()), 1));
  state->engine = std::shared_ptr<detail::Engine>(
      new detail::Engine(transport, {warn_after,
                                     fail_after,
                                     fail_after_total,
                                     options.name,
                                     options.local_replicas,
                                     {settings.recorder_entries, settings.recorder_directory},
                                     std::move(family),
                                     options.recovery_advice}),
      detail::Engine::end);
  return Communicator(state);
}

/// Collective if the communicator has no layout yet.
void CommunicatorAccess::complete(Communicator& communicator, const CommunicatorOptions& options, bool has_layout,
                                  const detail::ScheduleOptions& schedules, const detail::Settings& settings) {
  Communicator::State& state = *communicator.state_;
  // a rank may have passed an invalid number of replicas: ReplicaLayout checks the numbers after the exchange, so that
  // all ranks throw
  if (!has_layout && communicator.size() == 1) {
    state.layout = ReplicaLayout({options.local_replicas});
  } else if (!has_layout) {
    const std::array<std::int32_t, 2> own{options.local_replicas, detail::timeout_ms(options)};
    std::vector<std::int32_t> all(2 * static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(own, all, detail::internal_call("communicator_from: replica counts and timeouts"));
    std::vector<int> counts;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      const std::size_t at = 2 * static_cast<std::size_t>(rank);
      detail::require_replicas("communicator_from", rank, all[at]);
      counts.push_back(all[at]);
      detail::require_equal_timeouts("communicator_from", {0, all[1]}, {rank, all[at + 1]});
    }
    state.layout = ReplicaLayout(counts);
  }
  detail::ScheduleOptions chosen = schedules;
  if (chosen.radices.empty()) chosen.radices = settings.radices;
  detail::Transport& made = state.engine->transport();
  const detail::NodePath path = made.local_group() != nullptr ? detail::NodePath::memory : detail::NodePath::messages;
  state.schedules =
      std::make_shared<detail::ScheduleCache>(state.layout, made.node_leaders(), state.rank, chosen, path);
  const detail::NodeGroup* const node = made.node_group();
  if (schedules.carries && node == nullptr) {
    state.carry_steps = detail::make_carry_steps(state.layout, made.node_leaders(), state.rank, path);
  } else if (schedules.carries && node->levels().count() > 1) {
    state.carry_steps = std::make_shared<const detail::CarrySteps>(state.layout, node->levels(), state.rank);
    state.level_schedule = detail::make_level_schedule(state.layout, node->levels(), state.rank);
  }
  if (auto log = detail::hash_log_of_this_process())
    state.hashes = std::make_unique<detail::HashRecorder>(std::move(log), options.name, state.layout, made);
  const auto refuse = [&](const std::string& text) {
    communicator.abort(text);
    const bool has_name = options.name != CommunicatorOptions().name;
    detail::throw_error(Code::invalid_argument, "communicator{}: {}", has_name ? " \"" + options.name + "\"" : "",
                        text);
  };
  const auto fail_after = *state.options.fail_after;
  if (fail_after.count() <= 0) refuse(fmt::format("fail_after is {} ms; it must be positive", fail_after.count()));
  const auto warn_after = *state.options.warn_after;
  if (warn_after.count() <= 0) refuse(fmt::format("warn_after is {} ms; it must be positive", warn_after.count()));
  if (const auto total = state.options.fail_after_total; total && *total < fail_after) {
    refuse(fmt::format("fail_after_total is {} ms{}; it must be at least fail_after, {} ms", total->count(),
                       options.fail_after_total ? "" : " (from LOCKSTEP_TIMEOUT)", fail_after.count()));
  }
}

Communicator CommunicatorAccess::make_internal(std::unique_ptr<detail::Transport> transport,
                                               const CommunicatorOptions& options, const ReplicaLayout& layout,
                                               std::shared_ptr<detail::Family> family) {
  Communicator communicator = make(std::move(transport), options, layout, {}, std::move(family));
  communicator.state_->wait_claim.reset();
  communicator.state_->hashes.reset();              // all its calls are the library's own
  communicator.state_->engine->ignore_positions();  // after a failure, the next call needs no `recover`
  return communicator;
}

}  // namespace lockstep
