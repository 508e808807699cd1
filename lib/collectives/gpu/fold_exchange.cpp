// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce, reduce and reduce_scatter on GPUs along the canonical tree. Results are bitwise equal to the results for
// tensors in host memory.
//
// 1. Each GPU computes the blocks of the tree whose replicas are all on the GPU. 2. Each GPU owns a slice of the
// elements. For this slice, it receives the blocks of the other GPUs, which NCCL moves as bytes. 3. Each GPU folds the
// blocks of its slice along the tree in one kernel. 4. Each GPU sends its slice of the result to all GPUs that need the
// result. With D GPUs, each GPU sends 2 (D-1)/D times the bytes of its blocks. A reduce_scatter has no step 4, because
// the slice of a GPU consists of the parts of its replicas. If there is only one GPU, one kernel does the whole
// reduction, without NCCL.

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/operations.hpp"
#include "collectives/gpu/reduction.hpp"
#include "schedule/partition.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

using Slices = std::vector<std::vector<TensorRange>>;  // by GPU; the `item` of a range is the index of a bucket

std::vector<Bucket> buckets_for(const Traits& kind, std::span<const HostItem> items) {
  // in a packed bucket, the part of one replica in a reduce_scatter would not be contiguous
  return kind.has_own_outputs() ? single_buckets_of(items) : buckets_of(items);
}

Slices even_slices_of(std::span<const Bucket> buckets, int leaders) {
  std::vector<std::int64_t> counts;
  for (const Bucket& bucket : buckets) counts.push_back(bucket.count);
  return even_slices(counts, leaders);
}

Slices slices_of_parts(std::span<const Bucket> buckets, const Leaders& leaders, int replicas) {
  Slices slices;
  for (int leader = 0; leader < leaders.size(); ++leader) {
    auto& slice = slices.emplace_back();
    for (const int replica : leaders[leader].replicas) {
      for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
        const std::int64_t part = buckets[bucket].count / replicas;
        if (part != 0) slice.push_back({static_cast<std::uint32_t>(bucket), replica * part, (replica + 1) * part});
      }
    }
  }
  return slices;
}

class FoldExchange final : public GpuReduction {
 public:
  FoldExchange(const Descriptor& descriptor, std::shared_ptr<GpuGroup> of, std::vector<HostItem> items)
      : GpuReduction(descriptor, std::move(of), items, buckets_for(descriptor.traits(), items)) {
    const Leaders& leaders = group().leaders();
    slices_ = is_scattered() ? slices_of_parts(buckets(), leaders, group().layout().replicas())
                             : even_slices_of(buckets(), leaders.size());
    std::vector<Block> blocks;
    for (const LeaderBlock& each : leaders.blocks()) blocks.push_back(each.block);
    const Block root{0, group().layout().replicas()};
    merges_ = is_alone() ? fold_merges_of_leaves(root) : fold_merges(blocks, root);
  }

 private:
  /// Partial results on one GPU.
  struct Partials {
    std::vector<std::vector<FoldInput>> own;  ///< the GPU's blocks, by bucket; if there is only one GPU, its inputs
    std::vector<void*> results;               ///< memory for the result, by bucket; may be null
    /// Blocks of the other GPUs, by range of this GPU's slice and by index in Leaders::blocks.
    std::vector<std::vector<void*>> received;
  };

  bool do_step(int step) override {
    switch (step) {
      case 0:
        pack();
        partials_.resize(streams());
        for (std::size_t stream = 0; stream < streams(); ++stream) prepare(stream);
        if (!is_alone()) exchange_blocks();
        return false;
      case 1:
        for (std::size_t stream = 0; stream < streams(); ++stream) fold_slice(stream);
        if (!is_alone() && !is_scattered()) exchange_results();
        return false;
      default:
        if (!is_alone() && !is_scattered()) copy_results();
        unpack();
        return true;
    }
  }

  [[nodiscard]] bool is_scattered() const { return descriptor().traits().has_own_outputs(); }
  [[nodiscard]] bool is_alone() const { return group().leaders().size() == 1; }
  [[nodiscard]] bool wants_result(int leader) const {
    const Place outputs = descriptor().traits().outputs;
    return outputs == Place::root ? group().leaders().has(leader, descriptor().root) : outputs == Place::ranks;
  }
  [[nodiscard]] const std::vector<TensorRange>& slice(int leader) const {
    return slices_[static_cast<std::size_t>(leader)];
  }
  [[nodiscard]] DType travel_dtype(const Block& block, const Bucket& bucket) const {
    return block.last - block.first == 1 ? bucket.dtype : accumulation_of(bucket);
  }
  [[nodiscard]] const Bucket& bucket_of(const TensorRange& range) const { return buckets()[range.item]; }

  void prepare(std::size_t stream) {
    Partials& partials = partials_[stream];
    for (std::size_t bucket = 0; bucket < buckets().size(); ++bucket) {
      partials.own.push_back(is_alone() ? leaves(stream, bucket) : fold_blocks(stream, bucket));
      const std::vector<void*>& outputs = placed(stream, bucket).outputs;
      const std::size_t bytes = bytes_of(buckets()[bucket].count, result_of(buckets()[bucket]));
      const bool needs_scratch = outputs.empty() && !is_alone() && !is_scattered() && bytes != 0;
      partials.results.push_back(!outputs.empty() ? outputs.front() : needs_scratch ? scratch(stream, bytes) : nullptr);
    }
    if (is_alone()) return;
    for (const TensorRange& range : slice(group().leader_of_stream(stream))) {
      auto& received = partials.received.emplace_back();
      for (const LeaderBlock& from : group().leaders().blocks()) {
        const bool is_own = from.leader == group().leader_of_stream(stream);
        received.push_back(is_own ? nullptr : scratch(stream, travel_bytes(from.block, range)));
      }
    }
  }

  [[nodiscard]] std::size_t travel_bytes(const Block& block, const TensorRange& range) const {
    return bytes_of(range.end - range.begin, travel_dtype(block, bucket_of(range)));
  }

  std::vector<FoldInput> leaves(std::size_t stream, std::size_t bucket) {
    std::vector<FoldInput> inputs;
    for (const void* const input : placed(stream, bucket).inputs) inputs.push_back({input, false});
    return inputs;
  }

  std::vector<FoldInput> fold_blocks(std::size_t stream, std::size_t index) {
    const Bucket& bucket = buckets()[index];
    const std::vector<FoldInput> inputs = leaves(stream, index);
    std::vector<FoldInput> values;
    std::size_t next = 0;
    for (const Block& block : leader_of(stream).blocks) {
      const auto width = static_cast<std::size_t>(block.last - block.first);
      const auto own = std::span(inputs).subspan(std::exchange(next, next + width), width);
      if (width == 1 || bucket.count == 0) {
        values.push_back(own.front());
        continue;
      }
      void* const value = scratch(stream, bytes_of(bucket.count, accumulation_of(bucket)));
      fold(stream,
           {.op = descriptor().op,
            .dtype = bucket.dtype,
            .inputs = own,
            .merges = fold_merges_of_leaves(block),
            .outputs = std::span(&value, 1),
            .result = FoldResult::partial},
           bucket.count);
      values.push_back({value, true});
    }
    return values;
  }

  /// Both GPUs of a pair visit ranges and blocks in the same order, so sends and receives match.
  void exchange_blocks() {
    const NcclComms& comms = *group().comms();
    const Leaders& leaders = group().leaders();
    NcclGroup calls(comms);
    for (std::size_t stream = 0; stream < streams(); ++stream) {
      const int own = group().leader_of_stream(stream);
      for (int peer = 0; peer < leaders.size(); ++peer) {
        if (peer == own) continue;
        for (const TensorRange& range : slice(peer)) send_blocks(calls, stream, peer, range);
      }
      for (std::size_t p = 0; p < slice(own).size(); ++p) {
        for (std::size_t b = 0; b < leaders.blocks().size(); ++b) {
          const LeaderBlock& from = leaders.blocks()[b];
          if (from.leader == own) continue;
          calls.add(comms.api().recv(partials_[stream].received[p][b], travel_bytes(from.block, slice(own)[p]),
                                     DType::u8, from.leader, comms[stream], cuda_stream(stream)),
                    "ncclRecv");
        }
      }
    }
    calls.end();
  }

  void send_blocks(const NcclGroup& calls, std::size_t stream, int peer, const TensorRange& range) {
    const NcclComms& comms = *group().comms();
    const std::vector<Block>& blocks = leader_of(stream).blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const void* const value = partials_[stream].own[range.item][b].data;
      calls.add(comms.api().send(at(value, range.begin, travel_dtype(blocks[b], bucket_of(range))),
                                 travel_bytes(blocks[b], range), DType::u8, peer, comms[stream], cuda_stream(stream)),
                "ncclSend");
    }
  }

  void fold_slice(std::size_t stream) {
    const int own = group().leader_of_stream(stream);
    for (std::size_t p = 0; p < slice(own).size(); ++p) {
      const TensorRange& range = slice(own)[p];
      const std::vector<FoldInput> inputs = inputs_of(stream, p);
      const std::vector<void*> outputs = outputs_of(stream, range);
      fold(stream,
           {.op = descriptor().op,
            .dtype = bucket_of(range).dtype,
            .inputs = inputs,
            .merges = merges_,
            .outputs = outputs,
            .result = FoldResult::finished,
            .replicas = group().layout().replicas()},
           range.end - range.begin);
    }
  }

  /// Inputs for range number `index` of the slice, in id order: blocks of this GPU and blocks that other GPUs sent.
  std::vector<FoldInput> inputs_of(std::size_t stream, std::size_t index) {
    const int own = group().leader_of_stream(stream);
    const TensorRange& range = slice(own)[index];
    const DType leaf = bucket_of(range).dtype;
    const std::vector<FoldInput>& values = partials_[stream].own[range.item];
    std::vector<FoldInput> inputs;
    const auto add_own = [&](const FoldInput& value) {
      const DType dtype = value.accumulated ? accumulation_of(bucket_of(range)) : leaf;
      inputs.push_back({at(value.data, range.begin, dtype), value.accumulated});
    };
    if (is_alone()) {
      std::for_each(values.begin(), values.end(), add_own);
      return inputs;
    }
    std::size_t next = 0;
    const std::vector<LeaderBlock>& blocks = group().leaders().blocks();
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (blocks[b].leader == own) {
        add_own(values[next++]);
      } else {
        inputs.push_back({partials_[stream].received[index][b], blocks[b].block.last - blocks[b].block.first > 1});
      }
    }
    return inputs;
  }

  std::vector<void*> outputs_of(std::size_t stream, const TensorRange& range) {
    const DType dtype = result_of(bucket_of(range));
    if (is_scattered()) {
      const std::int64_t replica = range.begin / (range.end - range.begin);
      return {output_of(items()[range.item], static_cast<int>(replica))};
    }
    std::vector<void*> outputs;
    for (void* const output : placed(stream, range.item).outputs) outputs.push_back(at(output, range.begin, dtype));
    void* const result = partials_[stream].results[range.item];
    if (outputs.empty() && result != nullptr) outputs.push_back(at(result, range.begin, dtype));
    return outputs;
  }

  void exchange_results() {
    const NcclComms& comms = *group().comms();
    NcclGroup calls(comms);
    for (std::size_t stream = 0; stream < streams(); ++stream) {
      const int own = group().leader_of_stream(stream);
      for (int peer = 0; peer < group().leaders().size(); ++peer) {
        if (peer == own) continue;
        for (const TensorRange& range : slice(own)) {
          if (!wants_result(peer)) break;
          calls.add(comms.api().send(result_at(stream, range), result_bytes(range), DType::u8, peer, comms[stream],
                                     cuda_stream(stream)),
                    "ncclSend");
        }
        for (const TensorRange& range : slice(peer)) {
          if (!wants_result(own)) break;
          calls.add(comms.api().recv(result_at(stream, range), result_bytes(range), DType::u8, peer, comms[stream],
                                     cuda_stream(stream)),
                    "ncclRecv");
        }
      }
    }
    calls.end();
  }
  [[nodiscard]] void* result_at(std::size_t stream, const TensorRange& range) const {
    return at(partials_[stream].results[range.item], range.begin, result_of(bucket_of(range)));
  }
  [[nodiscard]] std::size_t result_bytes(const TensorRange& range) const {
    return bytes_of(range.end - range.begin, result_of(bucket_of(range)));
  }

  /// Copies the received result slices from the output that received them to the other outputs of the GPU.
  void copy_results() {
    for (std::size_t stream = 0; stream < streams(); ++stream) {
      std::vector<cuda::CopyRegion> pieces;
      for (int peer = 0; peer < group().leaders().size(); ++peer) {
        if (peer == group().leader_of_stream(stream)) continue;
        for (const TensorRange& range : slice(peer)) {
          for (void* const output : placed(stream, range.item).outputs) {
            void* const target = at(output, range.begin, result_of(bucket_of(range)));
            if (target != result_at(stream, range))
              pieces.push_back({result_at(stream, range), target, result_bytes(range)});
          }
        }
      }
      copy(stream, pieces);
    }
  }

  Slices slices_;
  std::vector<std::uint8_t> merges_;  // the fold of step 3, see fold_merges
  std::vector<Partials> partials_;    // by stream
};

}  // namespace

std::shared_ptr<Operation> make_fold_exchange(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                              std::vector<HostItem> items) {
  return std::make_shared<FoldExchange>(descriptor, std::move(group), std::move(items));
}

}  // namespace lockstep::detail
