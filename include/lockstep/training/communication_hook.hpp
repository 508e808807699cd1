// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How GradientBuckets exchanges a bucket, if not by a plain all_reduce.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <memory>
#include <span>

namespace lockstep {

/// The exchange of one bucket, once per step. GradientBuckets owns the object, and calls `start`, then `test` any
/// number of times, then `wait`. Thread-safety: one thread at a time, but not always the same thread.
class LOCKSTEP_API BucketExchange {
 public:
  BucketExchange() = default;
  BucketExchange(const BucketExchange&) = delete;
  BucketExchange& operator=(const BucketExchange&) = delete;
  /// Waits for a pending exchange, bounded by the communicator's deadline.
  virtual ~BucketExchange();

  /// Starts the exchange of this step. The inputs of the bucket have their final values. Does not wait for other ranks.
  void start() { do_start(); }
  /// Whether the exchange of this step is complete, and all outputs are written. Local. Rethrows errors of the
  /// exchange.
  [[nodiscard]] bool test() { return do_test(); }
  /// Returns when the exchange of this step is complete, and all outputs are written. Collective. Rethrows errors of
  /// the exchange; the next step may then start.
  void wait() { do_wait(); }

 private:
  virtual void do_start() = 0;
  [[nodiscard]] virtual bool do_test() = 0;
  virtual void do_wait() = 0;
};

/// Makes the exchange of one bucket. GradientBuckets calls the hook once per bucket, in the order of the buckets, on
/// all ranks. `communicator` is a communicator of the GradientBuckets, on which no one else makes calls. `items` has
/// one item per tensor, with the tensors of the local replicas as inputs and as outputs; the exchange must write to the
/// outputs the values that the optimizer gets, equal on all replicas. `items` and the tensors stay valid as long as the
/// exchange exists. `op` is the op of the options. Exchanges must make the same calls in the same order on all ranks.
using CommunicationHook = Function<std::unique_ptr<BucketExchange>(const Communicator& communicator,
                                                                   std::span<const Item> items, ReduceOp op)>;

/// Exchanges f32 tensors as bf16: half the bytes. Each replica rounds its tensor to bf16 (8 bits of precision); the sum
/// is computed in f32, along the canonical tree, and rounded to bf16 once. So the result differs from that of f32, by
/// at most about 2^-8 times the sum of the absolute values of all replicas, plus 2^-8 times the result. It has the same
/// bits on all replicas and for every layout. Values keep their range, except that numbers which round to more than the
/// largest bf16 become infinite. Tensors of other dtypes are exchanged as they are.
/// Memory: 2 bytes per element and local replica. Cost: two more passes over the tensors of the rank. Making the
/// exchange throws Error(unimplemented) if a tensor is on a GPU.
[[nodiscard]] LOCKSTEP_API CommunicationHook bf16_compression();

}  // namespace lockstep
