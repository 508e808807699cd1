// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reduces gradients while later gradients are still being computed.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/training/communication_hook.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

struct GradientBucketsOptions {
  ReduceOp op = ReduceOp::sum;
  /// Tensors are added to a bucket until it has at least this many bytes. Large buckets need fewer messages; the
  /// reduction of a small bucket starts earlier. Must be equal on all ranks.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  /// Makes the exchange of each bucket, such as bf16_compression(). Must be the same on all ranks. Default: an
  /// all_reduce of the tensors.
  CommunicationHook hook = {};

  /// These options, with buckets of `options.bytes_per_pack` bytes if this value is set. Local.
  [[nodiscard]] GradientBucketsOptions with(const CommunicationOptions& options) const {
    GradientBucketsOptions result = *this;
    if (options.bytes_per_pack > 0)
      result.bucket_bytes = static_cast<std::size_t>(std::int64_t{options.bytes_per_pack});
    return result;
  }
};

/// Reduces a list of tensors in place, in buckets. A bucket has consecutive tensors of the list, so list the tensors in
/// the order in which they are computed. The reduction of a bucket starts when all its tensors are ready on all
/// replicas of this rank, and the reductions of all earlier buckets have started; the last bucket is reduced in
/// `finish`. For every bucket size, the result has the same bits as one all_reduce per tensor, unless the options have
/// a hook.
///
///   GradientBuckets buckets(strategy.communicator(), gradients);
///   strategy.run([&](ReplicaContext& replica) { compute gradient k ...; buckets.ready(replica, k); ...
///                                               buckets.finish(replica); });
///
/// Gradient accumulation: with `no_sync`, the gradients of several micro-batches are added without an exchange, and one
/// exchange follows.
///
///   for (int m = 0; m < micro_batches; ++m) {
///     std::optional<GradientBuckets::NoSync> no_sync;
///     if (m + 1 < micro_batches) no_sync.emplace(buckets);
///     strategy.run(...);                                       // as above: ready, finish
///   }
///
/// Thread-safety: `ready` and `finish` of different replicas may be called at the same time. The tensors must stay
/// allocated at the same addresses as long as this object exists. Tensors in the arena are reduced without copies to
/// staging memory.
class LOCKSTEP_API GradientBuckets {
 public:
  class NoSync;

  /// `gradients[i]` lists the tensors of local replica i. The lists of all replicas have equal lengths, dtypes and
  /// shapes. `op` must not change the dtype of a tensor. Collective: duplicates the communicator, so that other users
  /// of the communicator are not disturbed. Throws Error(invalid_argument) if there is not one list per local replica,
  /// or if the lists differ.
  GradientBuckets(const Communicator& communicator, std::span<const std::vector<TensorView>> gradients,
                  const GradientBucketsOptions& options = {});
  /// Like the constructor above, for a rank with one replica.
  GradientBuckets(const Communicator& communicator, std::span<const TensorView> gradients,
                  const GradientBucketsOptions& options = {});
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;
  /// Waits for pending reductions, bounded by the communicator's deadline.
  ~GradientBuckets();

  /// Declares that tensor `index` of local replica `replica` has its final values. Do not access the tensor from this
  /// call until it is reduced. Local: starts the reductions of complete buckets, and does not wait for them. Throws
  /// Error(invalid_argument) for an index that does not exist, Error(failed_precondition) for a tensor that is already
  /// ready.
  void ready(int replica, std::size_t index);
  /// Declares the remaining tensors of this replica ready, and returns when all tensors of this step are reduced on
  /// this rank. Every local replica calls `finish` once per step. Collective. If a reduction failed, `finish` rethrows
  /// the error on every replica; the step has then ended, and the contents of the tensors are unspecified. If a local
  /// replica does not call `finish` within the communicator's deadline, `finish` throws Error(deadline_exceeded) on the
  /// other local replicas.
  /// If a failure has left the ranks at different reductions, every later `finish` throws Error(mismatch) on all ranks:
  /// some ranks may have completed the step and have updated their variables. Create a new GradientBuckets on every
  /// rank, then restore the variables from a checkpoint.
  void finish(int replica);

  /// Like `ready` and `finish` above, for step functions. In this `finish`, the local replicas have a rendezvous as in
  /// `merge_call`, so a replica that leaves the step early is detected at once. After such an error, create a new
  /// GradientBuckets, because tensors that were declared ready stay ready. Do not mix these two functions with the two
  /// functions above.
  void ready(const ReplicaContext& replica, std::size_t index) { ready(replica.local_replica(), index); }
  void finish(ReplicaContext& replica);

  /// Number of tensors at the front of the list that are already reduced in this step on this rank; the optimizer can
  /// update the variables of these tensors. Local: advances pending reductions without waiting. Rethrows errors of the
  /// reductions; after that, `finish` starts no further reduction of the step, and rethrows the error, too.
  [[nodiscard]] std::size_t reduced_count();

  /// A NoSync of these buckets. Local. Throws as the constructor of NoSync.
  [[nodiscard]] NoSync no_sync();

  /// Number of buckets. Local.
  [[nodiscard]] std::size_t bucket_count() const noexcept;
  /// Seconds that local replica 0 has spent inside `finish`, summed over all steps. For the `finish` of step functions,
  /// the wait for other local replicas is not included. Local.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  struct State;
  Owned<State> state_;
};

/// As long as an object of this class exists, a step of `buckets` is a micro-batch without an exchange: `ready` and
/// `finish` add the tensors of the replica to sums that `buckets` keeps, and are Local; afterwards the program may
/// overwrite the tensors. In the next step without such an object, `ready` and `finish` first add the sum of the
/// earlier micro-batches to each tensor, and the totals are exchanged as usual. `buckets` must outlive the object.
/// Move-only.
///
/// Each replica adds its micro-batches in their order, so the result has the same bits for every layout. f16 and bf16
/// are added in f32, and rounded once, before the exchange. With ReduceOp::mean, the mean is taken over the replicas
/// only; scale the losses by the number of micro-batches.
///
/// All ranks must have such an object in the same micro-batches. This is not checked: if it is violated, the sums of
/// different steps are added, or a rank waits for an exchange until the deadline.
///
/// Thread-safety: create and destroy the object while no replica is between its first `ready` and its `finish`, for
/// example outside of `run`. Memory: a second copy of the gradients (f32 for 16-bit gradients), from the first object
/// on. Cost: one pass over the tensors per micro-batch.
class LOCKSTEP_API GradientBuckets::NoSync {
 public:
  /// Local. Throws Error(failed_precondition) if a replica has declared a tensor ready in the present step,
  /// Error(invalid_argument) if the op of `buckets` is neither sum nor mean, and Error(unimplemented) if `buckets` has
  /// f16 or bf16 tensors on GPUs.
  explicit NoSync(GradientBuckets& buckets);
  NoSync(NoSync&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync();

 private:
  State* state_;
};

inline GradientBuckets::NoSync GradientBuckets::no_sync() { return NoSync(*this); }

}  // namespace lockstep
