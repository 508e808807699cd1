// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_reduce in the order that NCCL chooses. One kernel per GPU folds the inputs of the GPU's replicas, then NCCL
// reduces among the GPUs, and then one kernel per GPU writes all outputs of the GPU. If each GPU has one replica, NCCL
// reads the inputs and writes the outputs directly, except for means.

#include "collectives/gpu/operations.hpp"
#include "collectives/gpu/reduction.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

/// The dtype in which data travels between GPUs. If a GPU has several replicas, it is the dtype of partial results. If
/// every GPU has one replica, it is the dtype of the tensor. Two means always use the dtype of partial results: a sum
/// of f16 may be too large for f16, and a mean of integers is computed in f64.
DType travel_dtype(ReduceOp op, DType dtype, const Leaders& leaders) {
  const bool is_narrow_mean = op == ReduceOp::mean && dtype == DType::f16;
  const bool is_integer_mean = op == ReduceOp::mean && is_integer(dtype);
  return leaders.most_replicas() > 1 || is_narrow_mean || is_integer_mean ? accumulation_dtype(op, dtype) : dtype;
}

nccl::RedOp nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod: return nccl::RedOp::prod;
    case ReduceOp::min: return nccl::RedOp::min;
    case ReduceOp::max: return nccl::RedOp::max;
    default: return nccl::RedOp::sum;  // also for a mean: the sum is divided at the end
  }
}

class NcclAllReduce final : public GpuReduction {
 public:
  NcclAllReduce(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items)
      : GpuReduction(descriptor, std::move(group), items, buckets_of(items)) {}

 private:
  bool do_step(int step) override {
    if (step == 0) {
      pack();
      runs_ = prepare_all(buckets().size(),
                          [&](std::size_t stream, std::size_t bucket) { return prepare(stream, bucket); });
      return false;
    }
    if (step == 1) {
      reduce_among_gpus();
      return false;
    }
    for (std::size_t stream = 0; stream < streams(); ++stream) {
      for (std::size_t bucket = 0; bucket < buckets().size(); ++bucket) finish(stream, bucket);
    }
    unpack();
    return true;
  }

  [[nodiscard]] DType travel_of(const Bucket& bucket) const {
    return travel_dtype(descriptor().op, bucket.dtype, group().leaders());
  }
  /// Whether NCCL writes the final result, so that no kernel finishes it. The answer must be the same on all ranks,
  /// because a kernel changes the bits of NaNs.
  [[nodiscard]] bool is_straight(const Bucket& bucket) const {
    return group().leaders().most_replicas() == 1 && descriptor().op != ReduceOp::mean &&
           travel_of(bucket) == result_of(bucket);
  }

  Run prepare(std::size_t stream, std::size_t index) {
    const Bucket& bucket = buckets()[index];
    const PlacedBucket& here = placed(stream, index);
    const DType travel = travel_of(bucket);
    const bool may_use_output = !here.outputs.empty() && travel == result_of(bucket);
    void* const target = may_use_output ? here.outputs.front() : scratch(stream, bytes_of(bucket.count, travel));
    if (here.inputs.size() == 1 && travel == bucket.dtype) return {here.inputs.front(), target};
    std::vector<FoldInput> inputs;
    for (const void* const input : here.inputs) inputs.push_back({input, false});
    fold(stream,
         {.op = descriptor().op,
          .dtype = bucket.dtype,
          .inputs = inputs,
          .merges = fold_merges_of_leaves({0, static_cast<int>(inputs.size())}),
          .outputs = std::span(&target, 1),
          .result = FoldResult::partial},
         bucket.count);
    return {target, target};
  }

  void reduce_among_gpus() {
    call_nccl_on_all(buckets().size(), "ncclAllReduce",
                     [&](nccl::Api& api, nccl::Comm comm, std::size_t stream, std::size_t index) {
                       const Bucket& bucket = buckets()[index];
                       const Run& run = runs_[stream][index];
                       return api.all_reduce(run.source, run.target, static_cast<std::size_t>(bucket.count),
                                             travel_of(bucket), nccl_op(descriptor().op), comm, cuda_stream(stream));
                     });
  }

  void finish(std::size_t stream, std::size_t index) {
    const Bucket& bucket = buckets()[index];
    const std::vector<void*>& outputs = placed(stream, index).outputs;
    if (outputs.empty()) return;
    const void* const reduced = runs_[stream][index].target;
    if (is_straight(bucket)) {
      std::vector<cuda::CopyRegion> further;
      for (void* const output : outputs) {
        if (output != reduced) further.push_back({reduced, output, bytes_of(bucket.count, result_of(bucket))});
      }
      copy(stream, further);
      return;
    }
    const FoldInput input{reduced, travel_of(bucket) != bucket.dtype};
    const std::uint8_t no_merges = 0;
    fold(stream,
         {.op = descriptor().op,
          .dtype = bucket.dtype,
          .inputs = std::span(&input, 1),
          .merges = std::span(&no_merges, 1),
          .outputs = outputs,
          .result = FoldResult::finished,
          .replicas = group().layout().replicas()},
         bucket.count);
  }

  std::vector<std::vector<Run>> runs_;  // by stream, by bucket
};

}  // namespace

bool nccl_reduces(ReduceOp op, std::span<const HostItem> items, const Leaders& leaders) {
  return std::all_of(items.begin(), items.end(), [&](const HostItem& item) {
    const bool is_ordered = is_floating_point(item.dtype) && (op == ReduceOp::min || op == ReduceOp::max);
    return !is_bitwise(op) && !is_ordered && nccl::is_reducible(travel_dtype(op, item.dtype, leaders));
  });
}

std::shared_ptr<Operation> make_nccl_all_reduce(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                                std::vector<HostItem> items) {
  return std::make_shared<NcclAllReduce>(descriptor, std::move(group), std::move(items));
}

}  // namespace lockstep::detail
