// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/all_reduce.hpp"

#include "collectives/gpu/reduction.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

/// What goes between GPUs: partial results, but where every GPU has one replica 16-bit floats as they are. The mean of
/// f16 is kept wide all the same: its sum may be too large for f16.
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
    default: return nccl::RedOp::sum;  // and the mean, which is divided at the end
  }
}

class NcclAllReduce final : public GpuReduction {
 public:
  NcclAllReduce(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items)
      : GpuReduction(descriptor, std::move(group), items, bundles_of(items)) {}

 private:
  /// What NCCL does with one bundle on one GPU.
  struct Run {
    const void* source = nullptr;
    void* target = nullptr;
  };

  bool do_step(int step) override {
    if (step == 0) {
      pack();
      runs_.resize(lanes());
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        for (std::size_t bundle = 0; bundle < bundles().size(); ++bundle) runs_[lane].push_back(prepare(lane, bundle));
      }
      return false;
    }
    if (step == 1) {
      reduce_among_gpus();
      return false;
    }
    for (std::size_t lane = 0; lane < lanes(); ++lane) {
      for (std::size_t bundle = 0; bundle < bundles().size(); ++bundle) finish(lane, bundle);
    }
    unpack();
    return true;
  }

  [[nodiscard]] DType travel_of(const Bundle& bundle) const {
    return travel_dtype(descriptor().op, bundle.dtype, group().leaders());
  }
  /// Whether NCCL's result is the result. The same on all ranks, as it shows in the bits of NaNs.
  [[nodiscard]] bool is_straight(const Bundle& bundle) const {
    return group().leaders().most_replicas() == 1 && descriptor().op != ReduceOp::mean &&
           travel_of(bundle) == result_of(bundle);
  }

  Run prepare(std::size_t lane, std::size_t index) {
    const Bundle& bundle = bundles()[index];
    const Part& here = part(lane, index);
    const DType travel = travel_of(bundle);
    const bool may_use_output = !here.outputs.empty() && travel == result_of(bundle);
    void* const target = may_use_output ? here.outputs.front() : scratch(lane, bytes_of(bundle.count, travel));
    if (here.inputs.size() == 1 && travel == bundle.dtype) return {here.inputs.front(), target};
    std::vector<FoldInput> inputs;
    for (const void* const input : here.inputs) inputs.push_back({input, false});
    fold(lane,
         {.op = descriptor().op,
          .dtype = bundle.dtype,
          .inputs = inputs,
          .merges = fold_merges_of_leaves({0, static_cast<int>(inputs.size())}),
          .outputs = std::span(&target, 1),
          .result = FoldResult::partial},
         bundle.count);
    return {target, target};
  }

  void reduce_among_gpus() {
    const NcclComms& comms = *group().comms();
    NcclGroup calls(comms);
    for (std::size_t bundle = 0; bundle < bundles().size(); ++bundle) {
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        const Run& run = runs_[lane][bundle];
        calls.add(comms.api().all_reduce(run.source, run.target, static_cast<std::size_t>(bundles()[bundle].count),
                                         travel_of(bundles()[bundle]), nccl_op(descriptor().op), comms[lane],
                                         stream_of(lane)),
                  "ncclAllReduce");
      }
    }
    calls.end();
  }

  void finish(std::size_t lane, std::size_t index) {
    const Bundle& bundle = bundles()[index];
    const std::vector<void*>& outputs = part(lane, index).outputs;
    if (outputs.empty()) return;
    const void* const reduced = runs_[lane][index].target;
    if (is_straight(bundle)) {
      std::vector<cuda::CopyRegion> further;
      for (void* const output : outputs) {
        if (output != reduced) further.push_back({reduced, output, bytes_of(bundle.count, result_of(bundle))});
      }
      copy(lane, further);
      return;
    }
    const FoldInput input{reduced, travel_of(bundle) != bundle.dtype};
    const std::uint8_t no_merges = 0;
    fold(lane,
         {.op = descriptor().op,
          .dtype = bundle.dtype,
          .inputs = std::span(&input, 1),
          .merges = std::span(&no_merges, 1),
          .outputs = outputs,
          .result = FoldResult::finished,
          .replicas = group().layout().replicas()},
         bundle.count);
  }

  std::vector<std::vector<Run>> runs_;  // by lane, by bundle
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
