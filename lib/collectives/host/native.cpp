// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_reduce with Order::any, by the reduction of the transport. Each rank first reduces the inputs of its own
// replicas along the canonical tree. Then the transport reduces the results of all ranks: one MPI_Iallreduce per item,
// which is tested until it completes or the deadline expires. A collective of MPI cannot be cancelled, so after the
// first failure of a communicator, the communicator does not use this operation any more.

#include "collectives/host/operations.hpp"
#include "kernels/reduce.hpp"
#include "schedule/canonical_tree.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

class NativeAllReduce final : public Operation {
 public:
  NativeAllReduce(const Descriptor& descriptor, const ReplicaLayout& layout, int rank, std::vector<HostItem> items)
      : Operation(descriptor), layout_(layout), rank_(rank), items_(std::move(items)) {}

  void start(Transport& transport, Workspace& workspace) override {
    const int local = layout_.count(rank_);
    const auto merges = fold_merges_of_leaves({0, local});
    for (const HostItem& item : items_) {
      const DType dtype = accumulation_dtype(descriptor().op, item.dtype);
      buffers_.push_back(workspace.take(static_cast<std::size_t>(item.count()) * size_of(dtype)));
      std::vector<FoldInput> inputs;
      for (const void* const input : item.inputs) inputs.push_back({input, false});
      void* const output = buffers_.back().data();
      reduce({.op = descriptor().op,
              .dtype = item.dtype,
              .inputs = inputs,
              .merges = merges,
              .outputs = std::span(&output, 1),
              .result = FoldResult::partial},
             item.count());
      transfers_.push_back(transport.start_native_all_reduce(output, item.count(), dtype, descriptor().op));
    }
  }

  bool advance(Transport& transport, Workspace& workspace) override {
    std::erase_if(transfers_, [&](Transfer transfer) { return transport.test(transfer); });
    if (!transfers_.empty()) return false;
    const std::vector<std::uint8_t> no_merges{0};
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const FoldInput sum{buffers_[i].data(), true};
      reduce({.op = descriptor().op,
              .dtype = items_[i].dtype,
              .inputs = std::span(&sum, 1),
              .merges = no_merges,
              .outputs = items_[i].outputs,
              .result = FoldResult::finished,
              .replicas = layout_.replicas()},
             items_[i].count());
    }
    for (auto& buffer : buffers_) workspace.give_back(std::move(buffer));
    buffers_.clear();
    return true;
  }

  std::vector<int> awaited_ranks() const override { return {}; }
  bool abandon(Transport& transport) noexcept override {
    transport.abandon(transfers_, std::move(buffers_));
    buffers_.clear();
    transfers_.clear();
    return false;
  }

 private:
  const ReplicaLayout layout_;
  int rank_;
  std::vector<HostItem> items_;
  std::vector<Buffer> buffers_;
  std::vector<Transfer> transfers_;
};

}  // namespace

std::shared_ptr<Operation> make_native_all_reduce(const Descriptor& descriptor, const ReplicaLayout& layout, int rank,
                                                  std::vector<HostItem> items) {
  return std::make_shared<NativeAllReduce>(descriptor, layout, rank, std::move(items));
}

}  // namespace lockstep::detail
