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

/// Which devices a rank has that names none.
enum class DefaultDevices : std::uint8_t {
  cpus,  ///< as many cpu:i as the communicator has local replicas, so cpu:0 alone for MPI_COMM_WORLD
  /// This rank's share of the GPUs that it sees: ranks that see the same ones divide them, in the order of ranks, as
  /// evenly as possible; where a launcher shows each rank its own, or CUDA_VISIBLE_DEVICES does, those are its share.
  /// `cpus` on all ranks where one of them would have none, which rank 0 says in its log, and describe() on every rank.
  gpus,
};

/// Devices for `replicas` replicas of this rank, of any number, for MultiWorkerOptions::devices: its share of the GPUs,
/// as DefaultDevices::gpus has it, but ranks that are more than the GPUs which they see have one together with their
/// neighbours. Replicas that are more than the share's GPUs are on one with their neighbours too: 4 on 2 GPUs are on
/// gpu:0, gpu:0#1, gpu:1, gpu:1#1. Ranks may give different numbers. Collective. Throws Error(unavailable) on all
/// ranks, which says why, where one of them sees no GPU, and where two see some of the same GPUs, but not all of them
/// in the same order; Error(invalid_argument) for no replica, and the other ranks get Error(unavailable) with the text.
[[nodiscard]] LOCKSTEP_API std::vector<Device> gpus_of_replicas(const Communicator& communicator, int replicas);

struct MultiWorkerOptions {
  /// Where the replicas of this rank compute, one each; ranks may have different numbers of them. At least one, none
  /// twice. Default: what `default_devices` says. Where there are hosts and GPUs among those of all ranks, what they
  /// reduce goes through host memory.
  std::optional<std::vector<Device>> devices;
  /// Equal on all ranks. Default: cpus, unlike tf.distribute, which takes the GPUs that it finds: a step function here
  /// is C++ that computes in host memory unless it was written for GPUs, and a job must not change with the machine.
  DefaultDevices default_devices = DefaultDevices::cpus;
  /// Deadlines and order of the strategy's collectives; `local_replicas` and `name` are set by the strategy.
  /// Default: those of the communicator.
  std::optional<CommunicatorOptions> communication;
  /// Of all collectives of the strategy, equal on all ranks: `timeout_seconds` goes before the deadlines above, the
  /// rest is merged with what single calls give. NCCL is demanded once, when the strategy is made: Error(unavailable)
  /// on all ranks where replicas are not all on GPUs that reach each other by it.
  CommunicationOptions communication_options = {};
  /// What the strategy's `cluster_resolver()` gives. Its chief and workers must be the ranks: as many, in the order of
  /// id_in_cluster. Nothing else of it is used; ranks find one another through MPI. Default, and where its cluster is
  /// empty, as without TF_CONFIG: every rank is a worker with the address "rank:<number>".
  std::optional<ClusterResolver> cluster_resolver = std::nullopt;
};

/// All ranks of a communicator, each with its own devices; replicas have ids in the order of ranks, then of devices.
/// Variables are equal on all ranks, and results of `reduce` the same everywhere, bit for bit, however replicas are
/// spread.
class LOCKSTEP_API MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Over MPI_COMM_WORLD. Collective. Throws Error(failed_precondition) when MPI is not initialised; make a
  /// lockstep::Environment first.
  explicit MultiWorkerMirroredStrategy(const MultiWorkerOptions& options = {});
  /// Over the ranks of `communicator`, which is duplicated: the strategy has messages and a sequence of its own.
  /// Collective. Throws Error(invalid_argument) for an empty list of devices or a device that is named twice,
  /// Error(unavailable) for one that is not here, Error(invalid_argument) for a resolver that knows other ranks; the
  /// other ranks then get Error(unavailable) with the text.
  explicit MultiWorkerMirroredStrategy(const Communicator& communicator, const MultiWorkerOptions& options = {});

 private:
  [[nodiscard]] const ClusterResolver* do_cluster_resolver() const noexcept override { return &resolver_; }

  ClusterResolver resolver_;
};

}  // namespace lockstep
