// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The common part of all reductions on GPUs: buckets, their memory on each GPU, and folds of any number of inputs.

#pragma once

#include "collectives/gpu/buckets.hpp"
#include "collectives/gpu/gpu_operation.hpp"
#include "kernels/reduce.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Inputs [first, first + merges.size()), which fold to one value by themselves.
struct Subfold {
  std::size_t first = 0;
  std::vector<std::uint8_t> merges;
};

struct SplitFold {
  std::vector<Subfold> subfolds;     ///< in order; they tile the inputs
  std::vector<std::uint8_t> merges;  ///< how their values fold
};

/// Splits a fold of many inputs with these merges (see fold_merges) into folds of at most `most` inputs, with the same
/// bits: the largest subtrees that fit. `most` is at least 1.
[[nodiscard]] SplitFold split_fold(std::span<const std::uint8_t> merges, std::size_t most);

class GpuReduction : public GpuOperation {
 protected:
  GpuReduction(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items,
               std::vector<Bucket> buckets);

  /// One bucket on one GPU.
  struct PlacedBucket {
    std::vector<const void*> inputs;  ///< one per replica of the GPU, in id order
    std::vector<void*> outputs;       ///< each gets the result; empty if no output is on the GPU
    std::vector<cuda::CopyRegion> unpack;
  };

  [[nodiscard]] const std::vector<Bucket>& buckets() const noexcept { return buckets_; }
  [[nodiscard]] PlacedBucket& placed(std::size_t stream, std::size_t bucket) { return placed_[stream][bucket]; }
  [[nodiscard]] DType accumulation_of(const Bucket& bucket) const {
    return accumulation_dtype(descriptor().op, bucket.dtype);
  }
  [[nodiscard]] DType result_of(const Bucket& bucket) const { return result_dtype(descriptor().op, bucket.dtype); }
  [[nodiscard]] static std::size_t bytes_of(std::int64_t count, DType dtype) {
    return static_cast<std::size_t>(count) * size_of(dtype);
  }

  /// Places all buckets, and copies the tensors of those that are packed.
  void pack();
  /// Copies the results of packed buckets to the tensors' outputs.
  void unpack();
  /// kernels/reduce's `reduce` on the GPU of `stream`, of any number of inputs and outputs.
  void fold(std::size_t stream, const Fold& fold, std::int64_t count);

 private:
  void place(std::size_t stream, const Bucket& bucket, PlacedBucket& placed) const;
  void place_packed(std::size_t stream, const Bucket& bucket, PlacedBucket& placed,
                    std::vector<cuda::CopyRegion>& pieces);
  void fold_at_once(std::size_t stream, const Fold& fold, std::int64_t count);

  const std::vector<Bucket> buckets_;
  std::vector<std::vector<PlacedBucket>> placed_;  // by stream, by bucket
};

}  // namespace lockstep::detail
