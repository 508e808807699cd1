// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives on host memory by direct exchange.
//
// The result is a list of tensors, which is cut into slices. Every rank is the owner of one slice. In the first step,
// the ranks send contributions to the owners. In a reduction, every rank contributes partial results. In a broadcast,
// the root contributes the values of the slice. In a gather there are no contributions, because each owner already has
// its slice. Each owner then computes its slice. In the second step, the owners send their slices to the ranks that
// need the result. A small result of a reduction or broadcast is not cut: every rank that needs the result receives all
// contributions and computes the whole result.
//
// Cost of an all_reduce of n bytes over P ranks, for each rank: if n is small, one step with P-1 messages of n bytes;
// else two steps with 2 (P-1) messages and 2 (P-1)/P n bytes sent. If the replicas of a rank are not exactly one block
// of the canonical tree, the rank contributes one partial result for each of several blocks. The algorithm is described
// in Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH (2005); here, the
// reduce-scatter is direct.

#include "base/check.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/transfers.hpp"
#include "collectives/host/exchange_plan.hpp"
#include "collectives/host/operations.hpp"
#include "kernels/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::detail {
namespace {

class Exchange final : public Operation {
 public:
  Exchange(const Descriptor& descriptor, const ReplicaLayout& layout, int rank, std::vector<HostItem> items)
      : Operation(descriptor),
        layout_(layout),
        rank_(rank),
        items_(std::move(items)),
        plan_(descriptor, layout_, rank, items_) {}

  void start(Transport& transport, Workspace& workspace) override {
    receive_from_.resize(static_cast<std::size_t>(layout_.ranks()));
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      if (plan_.contributes(peer, rank_)) receive(transport, workspace, peer, plan_.contribution_bytes(peer, rank_));
    }
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      if (plan_.contributes(rank_, peer)) contribute(transport, workspace, peer);
    }
    stage_ = Stage::contributions;
  }

  bool advance(Transport& transport, Workspace& workspace) override {
    if (stage_ == Stage::contributions) {
      if (!transfers_.all_received(transport)) return false;
      make_result(transport, workspace);
      stage_ = Stage::results;
    }
    if (stage_ == Stage::results) {
      if (!transfers_.all_received(transport)) return false;
      deliver_results();
      stage_ = Stage::sending;
    }
    if (!transfers_.all_sent(transport)) return false;
    transfers_.release(workspace);
    return true;
  }

  std::vector<int> awaited_ranks() const override { return transfers_.awaited_ranks(); }
  bool abandon(Transport& transport) noexcept override {
    transfers_.abandon(transport);
    return false;
  }
  bool survives_faults() const noexcept override { return true; }

 private:
  enum class Stage : std::uint8_t { contributions, results, sending };

  void receive(Transport& transport, Workspace& workspace, int source, std::size_t bytes) {
    receive_from_[static_cast<std::size_t>(source)] = transfers_.receive(transport, workspace, source, bytes);
  }

  /// Sends this rank's contribution to `owner`. The contribution is a copy, because an output may be the same memory as
  /// an input, and may be written while the message is in flight.
  void contribute(Transport& transport, Workspace& workspace, int owner) {
    const std::span<std::byte> buffer = transfers_.new_buffer(workspace, plan_.contribution_bytes(rank_, owner));
    std::byte* next = buffer.data();
    for (const TensorRange& range : plan_.slice(owner)) {
      const HostItem& item = items_[range.item];
      if (plan_.assembly() == Assembly::scatter) {
        std::memcpy(next, at(item.inputs[0], range.begin, item.dtype),
                    static_cast<std::size_t>(range.end - range.begin) * size_of(item.dtype));
        next += padded_bytes(range.end - range.begin, item.dtype);
      } else {
        next = pack_partials(range, item, next);
      }
    }
    transfers_.send(transport, owner, buffer);
  }

  /// Writes this rank's partial results of `range` to `next`; returns the end of the written bytes.
  std::byte* pack_partials(const TensorRange& range, const HostItem& item, std::byte* next) {
    const std::int64_t count = range.end - range.begin;
    const auto& blocks = plan_.blocks(rank_);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const DType dtype = plan_.travel_dtype(blocks[b], item);
      const int first = blocks[b].first - layout_.first(rank_);
      if (blocks[b].last - blocks[b].first == 1) {
        std::memcpy(next, at(item.inputs[static_cast<std::size_t>(first)], range.begin, dtype),
                    static_cast<std::size_t>(count) * size_of(dtype));
      } else {
        inputs_.clear();
        for (int i = first; i < first + blocks[b].last - blocks[b].first; ++i) {
          inputs_.push_back({at(item.inputs[static_cast<std::size_t>(i)], range.begin, item.dtype), false});
        }
        void* const output = next;
        reduce({.op = descriptor().op,
                .dtype = item.dtype,
                .inputs = inputs_,
                .merges = plan_.block_merges(b),
                .outputs = std::span(&output, 1),
                .result = FoldResult::partial},
               count);
      }
      next += padded_bytes(count, dtype);
    }
    return next;
  }

  /// Computes this rank's slice, sends the slice to the ranks that need it, and posts the receives of the other slices.
  void make_result(Transport& transport, Workspace& workspace) {
    bool is_shared = false;
    for (int peer = 0; peer < layout_.ranks(); ++peer) is_shared = is_shared || plan_.distributes(rank_, peer);
    std::span<std::byte> result;
    const bool is_scattered = descriptor().traits().has_own_outputs();
    if (is_shared || is_scattered) result = transfers_.new_buffer(workspace, plan_.result_bytes(rank_));
    switch (plan_.assembly()) {
      case Assembly::fold: fold_slice(result); break;
      case Assembly::concatenate: concatenate_slice(result); break;
      case Assembly::scatter: take_scattered_slice(result); break;
    }
    for (int peer = 0; peer < layout_.ranks(); ++peer) {
      if (plan_.distributes(rank_, peer)) transfers_.send(transport, peer, result);
    }
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      if (plan_.distributes(owner, rank_)) receive(transport, workspace, owner, plan_.result_bytes(owner));
    }
  }

  void fold_slice(std::span<std::byte> result) {
    std::vector<const std::byte*> cursors(receive_from_);
    std::vector<void*> outputs;
    std::byte* next = result.data();
    const bool is_scattered = descriptor().traits().has_own_outputs();
    for (const TensorRange& range : plan_.slice(rank_)) {
      const HostItem& item = items_[range.item];
      const DType out = plan_.result_dtype_of(item);
      collect_inputs(range, item, cursors);
      outputs.clear();
      if (!result.empty()) outputs.push_back(next);
      if (plan_.wants_result(rank_) && !is_scattered) {
        for (void* const output : item.outputs) outputs.push_back(at(output, range.begin, out));
      }
      reduce({.op = descriptor().op,
              .dtype = item.dtype,
              .inputs = inputs_,
              .merges = plan_.owner_merges(),
              .outputs = outputs,
              .result = FoldResult::finished,
              .replicas = layout_.replicas()},
             range.end - range.begin);
      if (is_scattered) deliver_scattered(range, item, next);
      if (!result.empty()) next += padded_bytes(range.end - range.begin, out);
    }
  }

  /// Sets `inputs_` to the inputs of `range`, in the order of replica ids: the partial results from the other ranks,
  /// and the tensors of this rank's replicas.
  void collect_inputs(const TensorRange& range, const HostItem& item, std::vector<const std::byte*>& cursors) {
    inputs_.clear();
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      if (rank == rank_) {
        for (const void* const input : item.inputs) inputs_.push_back({at(input, range.begin, item.dtype), false});
        continue;
      }
      auto& cursor = cursors[static_cast<std::size_t>(rank)];
      for (const Block& block : plan_.blocks(rank)) {
        inputs_.push_back({cursor, block.last - block.first > 1});
        cursor += padded_bytes(range.end - range.begin, plan_.travel_dtype(block, item));
      }
    }
  }

  void concatenate_slice(std::span<std::byte> result) {
    std::byte* next = result.data();
    for (const TensorRange& range : plan_.slice(rank_)) {
      const HostItem& item = items_[range.item];
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        const int replica = layout_.first(rank_) + static_cast<int>(i);
        const std::int64_t begin = item.part_begin(replica);
        const auto part = static_cast<std::size_t>(item.part_begin(replica + 1) - begin) * size_of(item.dtype);
        if (part == 0) continue;
        if (!result.empty()) std::memcpy(at(next, begin - range.begin, item.dtype), item.inputs[i], part);
        if (!plan_.wants_result(rank_)) continue;
        for (void* const output : item.outputs) std::memmove(at(output, begin, item.dtype), item.inputs[i], part);
      }
      if (!result.empty()) next += padded_bytes(range.end - range.begin, item.dtype);
    }
  }

  void take_scattered_slice(std::span<std::byte> result) {
    if (rank_ == descriptor().root) {
      pack_own_slice(result);
      for (const HostItem& item : items_) {
        for (void* const output : item.outputs) {
          if (output != item.inputs[0])
            std::memcpy(output, item.inputs[0], static_cast<std::size_t>(item.count()) * size_of(item.dtype));
        }
      }
      return;
    }
    const std::byte* const received = receive_from_[static_cast<std::size_t>(descriptor().root)];
    if (received == nullptr) return;
    deliver(rank_, received);
    if (!result.empty()) std::memcpy(result.data(), received, result.size());
  }

  void pack_own_slice(std::span<std::byte> result) {
    std::byte* next = result.data();
    if (result.empty()) return;
    for (const TensorRange& range : plan_.slice(rank_)) {
      const HostItem& item = items_[range.item];
      std::memcpy(next, at(item.inputs[0], range.begin, item.dtype),
                  static_cast<std::size_t>(range.end - range.begin) * size_of(item.dtype));
      next += padded_bytes(range.end - range.begin, item.dtype);
    }
  }

  void deliver_results() {
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      if (plan_.distributes(owner, rank_)) deliver(owner, receive_from_[static_cast<std::size_t>(owner)]);
    }
  }

  /// Writes the slice of `owner` to the outputs of this rank.
  void deliver(int owner, const std::byte* data) {
    for (const TensorRange& range : plan_.slice(owner)) {
      const HostItem& item = items_[range.item];
      const DType dtype = plan_.result_dtype_of(item);
      for (void* const output : item.outputs) {
        std::memcpy(at(output, range.begin, dtype), data,
                    static_cast<std::size_t>(range.end - range.begin) * size_of(dtype));
      }
      data += padded_bytes(range.end - range.begin, dtype);
    }
  }

  /// Copies the part of each local replica in a reduce_scatter to the output of the replica.
  void deliver_scattered(const TensorRange& range, const HostItem& item, const std::byte* data) {
    const DType dtype = plan_.result_dtype_of(item);
    const auto part = static_cast<std::size_t>(range.end - range.begin) * size_of(dtype) / item.outputs.size();
    for (std::size_t replica = 0; replica < item.outputs.size(); ++replica) {
      std::memcpy(item.outputs[replica], data + replica * part, part);
    }
  }

  const ReplicaLayout layout_;
  int rank_;
  std::vector<HostItem> items_;
  ExchangePlan plan_;
  Stage stage_ = Stage::contributions;
  Transfers transfers_;
  std::vector<const std::byte*> receive_from_;  // the last message received from each rank, by rank
  std::vector<FoldInput> inputs_;
};

}  // namespace

std::shared_ptr<Operation> make_exchange(const Descriptor& descriptor, const ReplicaLayout& layout, int rank,
                                         std::vector<HostItem> items) {
  return std::make_shared<Exchange>(descriptor, layout, rank, std::move(items));
}

}  // namespace lockstep::detail
