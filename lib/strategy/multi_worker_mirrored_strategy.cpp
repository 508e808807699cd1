// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/phrases.hpp"
#include "collectives/internal_call.hpp"
#include "context/replica_team.hpp"
#include "cross_device/nccl_demand.hpp"
#include "device/cuda/backend.hpp"
#include "strategy/gpu_shares.hpp"
#include "strategy/local_devices.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace lockstep {
namespace {

constexpr std::string_view strategy_name = "MultiWorkerMirroredStrategy";
constexpr std::string_view creation = "the creation of a MultiWorkerMirroredStrategy";
constexpr std::string_view nccl_demand = "MultiWorkerMirroredStrategy: implementation NCCL";

bool demands_nccl(const MultiWorkerOptions& options) {
  return options.communication_options.implementation == CommunicationImplementation::nccl;
}

/// Throws Error(invalid_argument) if the cluster specification does not match the ranks of this job.
void check_resolver(const ClusterResolver& resolver, const Communicator& communicator) {
  const ClusterSpec& spec = resolver.cluster_spec();
  if (spec.empty()) return;
  if (resolver.task_type() != "worker" && resolver.task_type() != "chief") {
    detail::throw_error(
        Code::invalid_argument,
        "{}: cluster_resolver {}; ranks are of type worker or chief, such as \"task\": {{\"type\": \"worker\", "
        "\"index\": 0}} in TF_CONFIG",
        strategy_name,
        resolver.task_type().empty() ? "names no task for this rank"
                                     : fmt::format("says that this rank is the task \"{}\"", resolver.task_type()));
  }
  const int tasks = worker_count(spec, resolver.task_type());
  if (tasks != communicator.size()) {
    detail::throw_error(Code::invalid_argument,
                        "{}: the cluster of cluster_resolver has {}, chief included, but the job has {}; start as "
                        "many ranks, or leave cluster_resolver out",
                        strategy_name, detail::counted(tasks, "worker"), detail::counted(communicator.size(), "rank"));
  }
  const int id = id_in_cluster(spec, resolver.task_type(), resolver.task_id());
  if (id != communicator.rank()) {
    detail::throw_error(Code::invalid_argument,
                        "{}: cluster_resolver says that this rank is {} {}, position {} in the cluster, but its MPI "
                        "rank is {}; each rank must get the task whose position equals its rank",
                        strategy_name, resolver.task_type(), resolver.task_id(), id, communicator.rank());
  }
}

ClusterResolver resolver_of(const Communicator& communicator, const MultiWorkerOptions& options) {
  if (options.cluster_resolver && !options.cluster_resolver->cluster_spec().empty()) return *options.cluster_resolver;
  return {communicator.rank(), communicator.size()};
}

/// Checks the options of this rank. An error may occur on this rank only, so it is propagated.
void check_options(const Communicator& communicator, const MultiWorkerOptions& options) {
  detail::propagate(communicator, [&] {
    if (options.cluster_resolver) check_resolver(*options.cluster_resolver, communicator);
    if (demands_nccl(options)) require_nccl_here(nccl_demand);
    if (options.devices) static_cast<void>(checked_devices(*options.devices, strategy_name));
  });
}

/// The options that must be equal on all ranks, as numbers.
using SharedOptions = std::array<std::int64_t, 4>;
constexpr std::array<std::string_view, 4> shared_option_names{"default_devices", "communication_options.implementation",
                                                              "communication_options.bytes_per_pack",
                                                              "communication_options.timeout_seconds"};

std::string text_of_option(std::size_t option, std::int64_t value) {
  switch (option) {
    case 0: return value == static_cast<std::int64_t>(DefaultDevices::cpus) ? "cpus" : "gpus";
    case 1: return std::string(to_string(static_cast<CommunicationImplementation>(value)));
    case 3: return value < 0 ? "not set" : fmt::format("{} s", static_cast<double>(value) / 1000);
    default: return fmt::format("{}", value);
  }
}

/// Throws Error(mismatch) on all ranks if an option that must be equal is not. Collective: one all_gather.
void require_equal_options(Communicator& communicator, const MultiWorkerOptions& options) {
  const CommunicationOptions& calls = options.communication_options;
  const auto deadline = calls.deadline();
  const SharedOptions mine{static_cast<std::int64_t>(options.default_devices),
                           static_cast<std::int64_t>(CommunicationImplementation(calls.implementation)),
                           static_cast<std::int64_t>(calls.bytes_per_pack), deadline ? deadline->count() : -1};
  const std::vector<ConstTensorView> inputs(static_cast<std::size_t>(communicator.local_replicas()),
                                            view_of(std::span<const std::int64_t>(mine)));
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(communicator.layout().replicas()));
  const TensorView output = view_of(std::span(all));
  const Item item{inputs, std::span(&output, 1)};
  communicator.all_gather(std::span(&item, 1), detail::internal_call(creation));
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const std::size_t begin = mine.size() * static_cast<std::size_t>(communicator.layout().first(rank));
    for (std::size_t option = 0; option < mine.size(); ++option) {
      if (all[begin + option] == all[option]) continue;
      throw Error(Code::mismatch,
                  fmt::format("{}: {} is {} on rank 0 but {} on rank {}; it must be equal on all ranks", strategy_name,
                              shared_option_names[option], text_of_option(option, all[option]),
                              text_of_option(option, all[begin + option]), rank),
                  {rank, -1, std::string(strategy_name), -1});
    }
  }
}

/// The devices of this rank, and a remark about their choice.
struct ChosenDevices {
  std::vector<Device> devices;
  std::string note;
};

/// Collective unless `default_devices` is cpus; ranks that name their devices take part, too.
ChosenDevices choose_devices(Communicator& communicator, const MultiWorkerOptions& options) {
  if (options.default_devices == DefaultDevices::cpus) {
    return {options.devices.value_or(logical_cpus(communicator.local_replicas())), ""};
  }
  const GpuShares shares = agreed_shares_of_gpus(communicator, !options.devices.has_value(), WhenCrowded::none_has_any);
  if (options.devices) return {*options.devices, ""};
  if (shares.of_rank.empty()) {
    if (communicator.rank() == 0) {
      detail::log_warning(
          "{}: GPUs were requested, but {}; ranks without MultiWorkerOptions::devices compute on CPUs (on rank 0: {})",
          strategy_name, shares.why_not, gpu_status());
    }
    const std::string& why = detail::cuda::Backend::of_this_process().found().why;
    return {logical_cpus(communicator.local_replicas()),
            fmt::format("GPUs were requested, but {}{}", shares.why_not,
                        gpu_count() == 0 ? fmt::format(" (on rank {}: {})", communicator.rank(), why) : "")};
  }
  const GpuShare& mine = shares.of_rank[static_cast<std::size_t>(communicator.rank())];
  return {spread_over(mine, mine.count), ""};
}

/// Kinds of the devices of all ranks.
enum Kinds : std::uint8_t { cpus = 1, gpus = 2, both = 3 };

/// The kinds of devices on all ranks together. Collective. If the options of a rank are invalid, the other ranks get
/// the error of that rank here.
std::uint8_t kinds_of_all(Communicator& communicator, const std::vector<Device>& devices) {
  std::uint8_t kinds = 0;
  for (const Device& device : devices) kinds |= device.kind == DeviceKind::cpu ? Kinds::cpus : Kinds::gpus;
  const std::vector<ConstTensorView> inputs(static_cast<std::size_t>(communicator.local_replicas()),
                                            view_of(std::span<const std::uint8_t>(&kinds, 1)));
  std::uint8_t all = 0;
  const TensorView output = view_of(std::span(&all, 1));
  const Item item{inputs, std::span(&output, 1)};
  communicator.all_reduce(std::span(&item, 1), ReduceOp::bor, detail::internal_call(creation));
  return all;
}

/// Throws Error(unavailable) on all ranks if NCCL cannot connect the devices of all ranks. Collective.
void require_nccl_of_all(Communicator& communicator, const std::vector<Device>& devices, std::uint8_t kinds) {
  if (kinds != Kinds::gpus) {
    detail::throw_error(Code::unavailable, "{} requires GPUs, but replicas compute on {}; use AUTO or RING",
                        nccl_demand, kinds == Kinds::both ? "CPUs as well" : "CPUs");
  }
  require_nccl_between(communicator, devices, nccl_demand);
}

/// Collective.
std::shared_ptr<ReplicaTeam> agree_on_team(Communicator& communicator, const MultiWorkerOptions& options) {
  check_options(communicator, options);
  require_equal_options(communicator, options);
  ChosenDevices chosen = choose_devices(communicator, options);
  const std::uint8_t kinds = kinds_of_all(communicator, chosen.devices);
  CommunicatorOptions own = options.communication.value_or(communicator.options());
  own.local_replicas = static_cast<int>(chosen.devices.size());
  own.name = strategy_name;
  own.recovery_advice =
      "call communicator().recover() of the strategy on every rank, then restore the variables from a checkpoint";
  if (const auto deadline = options.communication_options.deadline()) {
    own.fail_after = *deadline;
    own.warn_after =
        std::min(own.warn_after.value_or(*deadline), std::max(*deadline / 2, std::chrono::milliseconds(1)));
  }
  Communicator duplicate = communicator.duplicate(own);
  if (demands_nccl(options)) require_nccl_of_all(duplicate, chosen.devices, kinds);
  // the other ranks may have completed the creation: they get the error from the next call on their strategies
  auto team = detail::propagate(
      duplicate, [&] { return std::make_shared<ReplicaTeam>(own.name, duplicate, std::move(chosen.devices)); });
  team->set_devices_of_all(kinds == Kinds::both, std::move(chosen.note));
  return team;
}

/// Collective. Every rank finds the errors that are not propagated yet, but only this rank knows that it has no memory.
std::shared_ptr<ReplicaTeam> make_team(const Communicator& given, const MultiWorkerOptions& options) {
  Communicator communicator(given);
  return detail::propagate(
      communicator, [&] { return agree_on_team(communicator, options); }, detail::FoundBy::all_ranks);
}

/// `options` for the calls of the strategy. The deadline is removed, because the communicator has it. The request for
/// NCCL has been checked, and becomes `automatic`, so that values in host memory can be reduced in host memory.
CommunicationOptions options_of_calls(CommunicationOptions options) {
  options.timeout_seconds = std::nullopt;
  if (options.implementation == CommunicationImplementation::nccl)
    options.implementation = CommunicationImplementation::automatic;
  return options;
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const MultiWorkerOptions& options)
    : MultiWorkerMirroredStrategy(world_communicator(), options) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const Communicator& communicator,
                                                         const MultiWorkerOptions& options)
    : Strategy(StrategyOfTheLibrary{.team = make_team(communicator, options),
                                    .options = options_of_calls(options.communication_options)}),
      resolver_(resolver_of(communicator, options)) {}

}  // namespace lockstep
