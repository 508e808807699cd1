// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/strategy/strategy.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// Devices of a rank that does not set MultiWorkerOptions::devices.
enum class DefaultDevices : std::uint8_t {
  cpus,  ///< one cpu:i for each local replica of the communicator; only cpu:0 for MPI_COMM_WORLD
  /// This rank's share of the GPUs that the rank sees. Ranks that see the same GPUs divide them as evenly as possible,
  /// in the order of ranks. If the launcher or CUDA_VISIBLE_DEVICES shows different GPUs to each rank, the share of a
  /// rank is all GPUs that the rank sees. If a rank would have no GPU, or if two ranks see only some GPUs in common,
  /// all ranks without `devices` use `cpus`. Rank 0 logs the reason, and describe() gives the reason on these ranks.
  gpus,
};

/// Devices for `replicas` replicas of this rank, for MultiWorkerOptions::devices. Collective; ranks may pass different
/// numbers.
/// The devices are this rank's share of the GPUs, as with DefaultDevices::gpus. If there are more ranks than GPUs,
/// neighbouring ranks share a GPU. If a rank has more replicas than GPUs, neighbouring replicas share a GPU: 4 replicas
/// on 2 GPUs are on gpu:0, gpu:0#1, gpu:1, gpu:1#1.
/// Throws Error(unavailable) with the reason, on all ranks, if a rank sees no GPU, or if two ranks see some of the same
/// GPUs, but not all of them in the same order. Throws Error(invalid_argument) if `replicas` is less than 1; the other
/// ranks then get Error(unavailable) with the text of this error.
[[nodiscard]] LOCKSTEP_API std::vector<Device> gpus_of_replicas(const Communicator& communicator, int replicas);

struct MultiWorkerOptions {
  /// Devices of this rank, one for each local replica: at least one device, and no device twice. Ranks may have
  /// different numbers of devices. Default: the devices that `default_devices` selects. If there are both CPUs and GPUs
  /// among the devices of all ranks, reductions go through host memory.
  std::optional<std::vector<Device>> devices = {};
  /// Selects the devices of ranks that do not set `devices`. Equal on all ranks. Default: cpus. (tf.distribute uses all
  /// GPUs of the machine. In lockstep, step functions are C++, which computes in host memory unless it was written for
  /// GPUs, and the devices of a job must not depend on the machine.)
  DefaultDevices default_devices = DefaultDevices::cpus;
  /// Deadlines and order of the strategy's collectives. The strategy sets `local_replicas` and `name` itself.
  /// Default: the options of the communicator.
  std::optional<CommunicatorOptions> communication = {};
  /// Options of all collectives of the strategy, equal on all ranks. `timeout_seconds` overrides the deadlines of
  /// `communication`. All other options are merged with the options of single calls. If NCCL is requested, the
  /// constructor throws Error(unavailable) on all ranks unless all replicas are on GPUs that NCCL connects.
  CommunicationOptions communication_options = {};
  /// Result of the strategy's `cluster_resolver()`. The chief and the workers of its cluster must correspond to the
  /// ranks: there are as many tasks as ranks, and id_in_cluster of this rank's task equals the rank. The strategy uses
  /// no other information of the resolver; ranks find one another through MPI. If there is no resolver, or if it has an
  /// empty cluster, every rank is a worker with the address "rank:<number>".
  std::optional<ClusterResolver> cluster_resolver = std::nullopt;
};

/// A strategy over all ranks of a communicator, each with its own devices. Replica ids follow the order of ranks, and
/// within a rank the order of devices. Variables are equal on all ranks. Results of `reduce` have the same bits on all
/// ranks. If the order of the collectives is canonical, the bits do not depend on how replicas are distributed over
/// ranks.
class LOCKSTEP_API MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Over the ranks of MPI_COMM_WORLD. Collective. Throws Error(failed_precondition) if MPI is not initialised; create
  /// a lockstep::Environment first.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerOptions& options = {});
  /// Over the ranks of `communicator`. `communicator` is duplicated, so the strategy's operations are separate from the
  /// program's operations on `communicator`. Collective. Throws Error(invalid_argument) for an empty list of devices,
  /// for a device that is named twice, and for a resolver whose tasks are not the ranks. Throws Error(unavailable) for
  /// a device that does not exist, and if the thread of a replica cannot be started; each local replica but the first
  /// has one. If one rank throws, the other ranks get Error(unavailable) with the text of its error, from the
  /// constructor or from the next call on the strategy.
  explicit MultiWorkerMirroredStrategy(const Communicator& communicator, const MultiWorkerOptions& options = {});

 private:
  [[nodiscard]] const ClusterResolver* do_cluster_resolver() const noexcept override { return &resolver_; }

  ClusterResolver resolver_;
};

}  // namespace lockstep
