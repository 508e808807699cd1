// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients that are reduced while later ones are still computed.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/context/replica_context.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

struct GradientBucketsOptions {
  ReduceOp op = ReduceOp::sum;
  /// A bucket is complete when it has at least this many bytes. Large buckets need fewer messages, small buckets start
  /// earlier. Must be equal on all ranks.
  std::size_t bucket_bytes = std::size_t{4} << 20;

  /// These options, with buckets of `options.bytes_per_pack` bytes if that is set. Local.
  [[nodiscard]] GradientBucketsOptions with(const CommunicationOptions& options) const {
    GradientBucketsOptions result = *this;
    if (options.bytes_per_pack > 0)
      result.bucket_bytes = static_cast<std::size_t>(std::int64_t{options.bytes_per_pack});
    return result;
  }
};

/// A list of tensors that are reduced in place, in buckets: tensors are put into buckets in the order of the list (give
/// them in the order in which they are computed), and the reduction of a bucket starts when all its tensors are ready
/// on all replicas of this rank and the reductions of all earlier buckets have started. The result is the same, bit for
/// bit, as that of one all_reduce per tensor, whatever the bucket size.
///
///   GradientBuckets buckets(strategy.communicator(), gradients);
///   strategy.run([&](ReplicaContext& replica) { compute gradient k ...; buckets.ready(replica, k); ...
///                                               buckets.finish(replica); });
///
/// Thread-safety: `ready` and `finish` of different replicas may be called at the same time. The tensors must stay
/// allocated at the same addresses as long as this object exists; tensors in the arena are reduced in place.
class LOCKSTEP_API GradientBuckets {
 public:
  /// `gradients[i]` are the tensors of local replica i: equal numbers, dtypes and shapes on all replicas, and element
  /// types that do not change under `op`. Collective: the communicator is duplicated, so that its other users are not
  /// disturbed. Throws Error(invalid_argument) if there is not one list per local replica, or lists differ.
  GradientBuckets(const Communicator& communicator, std::span<const std::vector<TensorView>> gradients,
                  const GradientBucketsOptions& options = {});
  /// The same for a rank with one replica.
  GradientBuckets(const Communicator& communicator, std::span<const TensorView> gradients,
                  const GradientBucketsOptions& options = {});
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;
  /// Waits for pending reductions, bounded by the communicator's deadline.
  ~GradientBuckets();

  /// Tensor `index` of local replica `replica` holds its values, and belongs to the reduction from now on. Local: posts
  /// the buckets that are complete, and returns. Throws Error(invalid_argument) for an index that does not exist,
  /// Error(failed_precondition) for a tensor that is already ready.
  void ready(int replica, std::size_t index);
  /// Returns when all tensors of this step are reduced on this rank; tensors that were not declared ready become ready.
  /// Every local replica calls it once per step. Collective. Rethrows errors of the reductions, on every replica; the
  /// step has then ended, too, and the contents of the tensors are unspecified. If a local replica does not call this
  /// within the communicator's deadline, the others throw Error(deadline_exceeded).
  void finish(int replica);

  /// The same inside `run`, which knows the replica. In `finish` the local replicas meet as in `merge_call`: a replica
  /// that leaves the step before that is detected at once; its tensors stay ready, so make new buckets in that case.
  /// Use either these functions or those above, not both.
  void ready(const ReplicaContext& replica, std::size_t index) { ready(replica.local_replica(), index); }
  void finish(ReplicaContext& replica);

  /// Number of tensors at the front of the list that are already reduced in this step on this rank, so that the
  /// optimizer could update their variables. Local: advances pending reductions without waiting. Rethrows errors of the
  /// reductions.
  [[nodiscard]] std::size_t reduced_count();

  /// Local.
  [[nodiscard]] std::size_t bucket_count() const noexcept;
  /// Seconds that replica 0 of this rank has spent inside `finish`, in all steps; does not include the wait for other
  /// local replicas if these met as in `merge_call`. Local.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
