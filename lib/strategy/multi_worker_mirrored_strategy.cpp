// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "base/check.hpp"
#include "context/replica_team.hpp"
#include "strategy/local_devices.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

constexpr std::string_view strategy_name = "MultiWorkerMirroredStrategy";

/// A cluster written by hand, or for another job, is found here and not by what it leads to.
void check_resolver(const ClusterResolver& resolver, const Communicator& communicator) {
  const ClusterSpec& spec = resolver.cluster_spec();
  if (spec.empty()) return;
  if (resolver.task_type() != "worker" && resolver.task_type() != "chief") {
    detail::throw_error(
        Code::invalid_argument,
        "{}: cluster_resolver says that this rank is the task \"{}\"; ranks are of type worker or chief", strategy_name,
        resolver.task_type());
  }
  const int tasks = worker_count(spec, resolver.task_type());
  if (tasks != communicator.size()) {
    detail::throw_error(
        Code::invalid_argument,
        "{}: the cluster of cluster_resolver has {} workers, chief included, but there are {} ranks; start as "
        "many ranks, or leave cluster_resolver out",
        strategy_name, tasks, communicator.size());
  }
  const int id = id_in_cluster(spec, resolver.task_type(), resolver.task_id());
  if (id != communicator.rank()) {
    detail::throw_error(
        Code::invalid_argument,
        "{}: cluster_resolver says that this rank is {} {}, number {} of all, but its rank is {}; give each rank "
        "the task that has its number",
        strategy_name, resolver.task_type(), resolver.task_id(), id, communicator.rank());
  }
}

ClusterResolver resolver_of(const Communicator& communicator, const MultiWorkerOptions& options) {
  if (options.cluster_resolver && !options.cluster_resolver->cluster_spec().empty()) return *options.cluster_resolver;
  return {communicator.rank(), communicator.size()};
}

std::vector<Device> devices_of(Communicator communicator, const MultiWorkerOptions& options) {
  try {
    if (options.cluster_resolver) check_resolver(*options.cluster_resolver, communicator);
    if (options.communication_options.implementation == CommunicationImplementation::nccl) {
      detail::throw_error(Code::unavailable, "{}: implementation NCCL is not in this build; give AUTO or RING",
                          strategy_name);
    }
    return checked_devices(options.devices ? *options.devices : logical_cpus(communicator.local_replicas()),
                           strategy_name);
  } catch (const Error& error) {
    communicator.announce_failure(error.what());
    throw;
  }
}

std::shared_ptr<ReplicaTeam> make_team(const Communicator& communicator, const MultiWorkerOptions& options) {
  std::vector<Device> devices = devices_of(communicator, options);
  // Ranks that gave wrong devices are gone by now; the others learn it here, since duplicating has no deadline.
  Communicator(communicator).barrier({.order = {}, .name = "start of MultiWorkerMirroredStrategy"});
  CommunicatorOptions own = options.communication.value_or(communicator.options());
  own.local_replicas = static_cast<int>(devices.size());
  own.name = strategy_name;
  if (const auto deadline = options.communication_options.deadline()) {
    own.fail_after = *deadline;
    own.warn_after =
        std::min(own.warn_after.value_or(*deadline), std::max(*deadline / 2, std::chrono::milliseconds(1)));
  }
  return std::make_shared<ReplicaTeam>(own.name, communicator.duplicate(own), std::move(devices));
}

/// Without the deadline, which the communicator has.
CommunicationOptions options_of_calls(CommunicationOptions options) {
  options.timeout_seconds = std::nullopt;
  return options;
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerOptions& options)
    : MultiWorkerMirroredStrategy(world_communicator(), options) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const Communicator& communicator,
                                                         const MultiWorkerOptions& options)
    : Strategy(make_team(communicator, options), nullptr, options_of_calls(options.communication_options)),
      resolver_(resolver_of(communicator, options)) {}

}  // namespace lockstep
