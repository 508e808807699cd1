// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The base class of reductions on GPUs: buckets, the memory of buckets on each GPU, and folds of any number of inputs.

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

/// A part of a fold: inputs [first, first + merges.size()), which are folded to one value. `merges`: see fold_merges.
struct Subfold {
  std::size_t first = 0;
  std::vector<std::uint8_t> merges;
};

struct SplitFold {
  std::vector<Subfold> subfolds;     ///< in input order; each input is in exactly one
  std::vector<std::uint8_t> merges;  ///< merges of the fold of the subfolds' values
};

/// Splits a fold with these merges (see fold_merges) into subfolds of at most `most` inputs: the largest subtrees that
/// have at most `most` inputs. The split fold has bitwise the same result. `most` is at least 1.
[[nodiscard]] SplitFold split_fold(std::span<const std::uint8_t> merges, std::size_t most);

class GpuReduction : public GpuOperation {
 protected:
  GpuReduction(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items,
               std::vector<Bucket> buckets);

  /// The memory of one bucket on one GPU.
  struct PlacedBucket {
    std::vector<const void*> inputs;       ///< one per replica of the GPU, in id order
    std::vector<void*> outputs;            ///< each gets the result; empty if no output is on the GPU
    std::vector<cuda::CopyRegion> unpack;  ///< copies from the result of a packed bucket to the tensors' outputs
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

  /// Assigns memory to all buckets, and copies the inputs of packed buckets to their memory.
  void pack();
  /// Copies the results of packed buckets to the tensors' outputs.
  void unpack();
  /// Evaluates `fold` for `count` elements on the GPU of `stream`, like `reduce` of kernels/reduce.hpp. The numbers of
  /// inputs and outputs are not limited.
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
