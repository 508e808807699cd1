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

/// Devices of a rank that names none.
enum class DefaultDevices : std::uint8_t {
  cpus,  ///< as many cpu:i as the communicator has local replicas, so cpu:0 alone for MPI_COMM_WORLD
  /// This rank's share of the GPUs that it sees. Ranks that see the same GPUs divide them, in the order of ranks, as
  /// evenly as possible; if the launcher or CUDA_VISIBLE_DEVICES shows each rank its own GPUs, these are its share.
  /// If one rank would have none, all ranks use `cpus`; rank 0 logs it, and describe() says so on every rank.
  gpus,
};

/// Devices for `replicas` replicas of this rank, for MultiWorkerOptions::devices. Collective; ranks may pass different
/// numbers.
/// They are the rank's share of the GPUs, as with DefaultDevices::gpus, but if there are more ranks than GPUs,
/// neighbouring ranks share one, and if there are more replicas than GPUs in the share, so do neighbouring replicas: 4
/// replicas on 2 GPUs are on gpu:0, gpu:0#1, gpu:1, gpu:1#1.
/// Failure: Error(unavailable) with the reason on all ranks, if a rank sees no GPU, or if two ranks see some of the
/// same GPUs, but not all of them in the same order. Error(invalid_argument) for less than one replica; the other ranks
/// get Error(unavailable) with the text.
[[nodiscard]] LOCKSTEP_API std::vector<Device> gpus_of_replicas(const Communicator& communicator, int replicas);

struct MultiWorkerOptions {
  /// Devices of the replicas of this rank, one each; ranks may have different numbers of them. At least one, none
  /// twice. Default: as `default_devices` says. With CPUs and GPUs among the devices of all ranks, reductions go
  /// through host memory.
  std::optional<std::vector<Device>> devices;
  /// Equal on all ranks. Default: cpus. tf.distribute takes the GPUs that it finds; a step function here is C++ that
  /// computes in host memory unless it was written for GPUs, and a job must not change with the machine.
  DefaultDevices default_devices = DefaultDevices::cpus;
  /// Deadlines and order of the strategy's collectives; `local_replicas` and `name` are set by the strategy.
  /// Default: those of the communicator.
  std::optional<CommunicatorOptions> communication;
  /// Options of all collectives of the strategy, equal on all ranks. `timeout_seconds` overrides the deadlines above;
  /// the rest is merged with the options of single calls. If NCCL is requested, it is checked once, in the constructor:
  /// Error(unavailable) on all ranks unless all replicas are on GPUs that NCCL connects.
  CommunicationOptions communication_options = {};
  /// Result of the strategy's `cluster_resolver()`. Its chief and workers must be the ranks: as many, in the order of
  /// id_in_cluster. Nothing else of it is used; ranks find one another through MPI. By default, and if its cluster is
  /// empty, as without TF_CONFIG, every rank is a worker with the address "rank:<number>".
  std::optional<ClusterResolver> cluster_resolver = std::nullopt;
};

/// All ranks of a communicator, each with its own devices; replicas have ids in the order of ranks, then of devices.
/// Variables are equal on all ranks, and results of `reduce` are the same everywhere, bit for bit, for any distribution
/// of the replicas over ranks.
class LOCKSTEP_API MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Over MPI_COMM_WORLD. Collective. Throws Error(failed_precondition) if MPI is not initialised; make a
  /// lockstep::Environment first.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerOptions& options = {});
  /// Over the ranks of `communicator`, which is duplicated: the strategy has messages and a sequence of its own.
  /// Collective. Throws Error(invalid_argument) for an empty list of devices, a device that is named twice, and a
  /// resolver with other ranks, Error(unavailable) for a device that does not exist; the other ranks then get
  /// Error(unavailable) with the text.
  explicit MultiWorkerMirroredStrategy(const Communicator& communicator, const MultiWorkerOptions& options = {});

 private:
  [[nodiscard]] const ClusterResolver* do_cluster_resolver() const noexcept override { return &resolver_; }

  ClusterResolver resolver_;
};

}  // namespace lockstep
