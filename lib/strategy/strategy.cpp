// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/strategy.hpp>

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "device/host/memory_resources.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/cluster/trace.hpp>
#include <lockstep/cross_device/all_reduce_cross_device_ops.hpp>

#include <fmt/format.h>

namespace lockstep {
namespace {

/// If some devices are CPUs and some are GPUs, all data must travel through host memory. `automatic` then becomes
/// `ring`, which always uses host memory.
CommunicationOptions options_for(const ReplicaTeam& team, CommunicationOptions options) {
  const bool is_open = options.implementation == CommunicationImplementation::automatic;
  if (is_open && team.devices_are_mixed()) options.implementation = CommunicationImplementation::ring;
  return options;
}

}  // namespace

Strategy::Strategy(const StrategyOfTheLibrary& parts)
    : team_(parts.team),
      ops_(parts.ops != nullptr ? parts.ops : std::make_shared<AllReduceCrossDeviceOps>()),
      ops_are_given_(parts.ops != nullptr),
      communication_options_(options_for(*team_, parts.options)),
      result_memory_(detail::steady_memory()),
      extended_(*this) {
  using Use = StrategyHooks::ReducerUse;
  // the reducer owns the objects that it uses, because variables keep the team alive after the strategy is destroyed
  team_->set_hooks(
      {.reducer =
           [held = ops_, of_strategy = communication_options_](Communicator& communicator, std::span<const Item> items,
                                                               ReduceOp op, const CommunicationOptions& of_call) {
             held->batch_reduce(communicator, items, op, of_strategy.merged(of_call));
           },
       .reducer_use = ops_are_given_ || !parts.options.is_default() ? Use::all_calls : Use::calls_with_options,
       .path = detail::path_of(communication_options_),
       .all_gather = &all_gather_parts,
       .all_reduce_mixed = &all_reduce_mixed_parts});
}
Strategy::~Strategy() {
  ThreadContext& context = thread_context();
  if (context.strategy == this && context.scope == nullptr && context.step == nullptr) context = {};
}

int Strategy::num_replicas_in_sync() const noexcept { return team_->replicas(); }
bool Strategy::is_chief() const noexcept { return team_->communicator().rank() == 0; }
const Communicator& Strategy::communicator() const noexcept { return team_->communicator(); }
const StrategyStatistics& Strategy::statistics() const noexcept { return team_->statistics(); }
int Strategy::local_replicas() const noexcept { return team_->local_replicas(); }
int Strategy::first_replica() const noexcept { return team_->first_replica_id(); }

Scope Strategy::scope() { return Scope(*this); }

void Strategy::run_task(ReplicaTask task, const RunOptions& options) {
  const TraceRange range("run");
  team_->warn_of_ignored(options);
  team_->run(this, task, options.mode);
}

void Strategy::check_replication_mode(const InputOptions& options) const {
  if (options.experimental_replication_mode != InputReplicationMode::per_replica) return;
  if (do_reads_per_replica()) return;
  detail::propagate(communicator(), [&] {
    detail::throw_error(Code::unimplemented,
                        "distribute_datasets_from_function: experimental_replication_mode is PER_REPLICA, which only "
                        "MirroredStrategy has, but this is {}; use PER_WORKER",
                        team_->name());
  });
}

std::vector<Device> Strategy::devices_for_batches(const InputOptions& options) const {
  return options.experimental_fetch_to_device ? team_->devices() : std::vector<Device>();
}

void Strategy::check_cross_replica(std::string_view call) const { detail::require_cross_replica(*team_, call); }

}  // namespace lockstep
