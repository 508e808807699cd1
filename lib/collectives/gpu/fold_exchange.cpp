// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/fold_exchange.hpp"

#include "collectives/call/host_item.hpp"
#include "collectives/gpu/reduction.hpp"
#include "schedule/partition.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {
namespace {

using Slices = std::vector<std::vector<Piece>>;  // by leader; of bundles

std::vector<Bundle> bundles_for(const Traits& kind, std::span<const HostItem> items) {
  // the parts of a reduce_scatter do not lie together in a pack
  return kind.has_own_outputs() ? single_bundles_of(items) : bundles_of(items);
}

Slices even_slices_of(std::span<const Bundle> bundles, int leaders) {
  std::vector<std::int64_t> counts;
  for (const Bundle& bundle : bundles) counts.push_back(bundle.count);
  return even_slices(counts, leaders);
}

Slices slices_of_parts(std::span<const Bundle> bundles, const Leaders& leaders, int replicas) {
  Slices slices;
  for (int leader = 0; leader < leaders.size(); ++leader) {
    auto& slice = slices.emplace_back();
    for (const int replica : leaders[leader].replicas) {
      for (std::size_t bundle = 0; bundle < bundles.size(); ++bundle) {
        const std::int64_t part = bundles[bundle].count / replicas;
        if (part != 0) slice.push_back({static_cast<std::uint32_t>(bundle), replica * part, (replica + 1) * part});
      }
    }
  }
  return slices;
}

class FoldExchange final : public GpuReduction {
 public:
  FoldExchange(const Descriptor& descriptor, std::shared_ptr<GpuGroup> of, std::vector<HostItem> items)
      : GpuReduction(descriptor, std::move(of), items, bundles_for(descriptor.traits(), items)) {
    const Leaders& leaders = group().leaders();
    slices_ = is_scattered() ? slices_of_parts(bundles(), leaders, group().layout().replicas())
                             : even_slices_of(bundles(), leaders.size());
    std::vector<Block> blocks;
    for (const LeaderBlock& each : leaders.blocks()) blocks.push_back(each.block);
    const Block root{0, group().layout().replicas()};
    merges_ = is_alone() ? fold_merges_of_leaves(root) : fold_merges(blocks, root);
  }

 private:
  /// What one GPU holds.
  struct Hold {
    std::vector<std::vector<FoldInput>> nodes;  ///< its own nodes, by bundle and block; leaves where it is alone
    std::vector<void*> results;                 ///< by bundle: where the slices of the result come to lie
    std::vector<std::vector<void*>> received;   ///< the others' nodes, by piece of its slice and block of all
  };

  bool do_step(int step) override {
    switch (step) {
      case 0:
        pack();
        holds_.resize(lanes());
        for (std::size_t lane = 0; lane < lanes(); ++lane) prepare(lane);
        if (!is_alone()) exchange_nodes();
        return false;
      case 1:
        for (std::size_t lane = 0; lane < lanes(); ++lane) fold_slice(lane);
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
  [[nodiscard]] const std::vector<Piece>& slice(int leader) const { return slices_[static_cast<std::size_t>(leader)]; }
  [[nodiscard]] DType travel_dtype(const Block& block, const Bundle& bundle) const {
    return block.last - block.first == 1 ? bundle.dtype : accumulation_of(bundle);
  }
  [[nodiscard]] const Bundle& bundle_of(const Piece& piece) const { return bundles()[piece.item]; }

  void prepare(std::size_t lane) {
    Hold& hold = holds_[lane];
    for (std::size_t bundle = 0; bundle < bundles().size(); ++bundle) {
      hold.nodes.push_back(is_alone() ? leaves(lane, bundle) : fold_nodes(lane, bundle));
      const std::vector<void*>& outputs = part(lane, bundle).outputs;
      const std::size_t bytes = bytes_of(bundles()[bundle].count, result_of(bundles()[bundle]));
      const bool needs_scratch = outputs.empty() && !is_alone() && !is_scattered() && bytes != 0;
      hold.results.push_back(!outputs.empty() ? outputs.front() : needs_scratch ? scratch(lane, bytes) : nullptr);
    }
    if (is_alone()) return;
    for (const Piece& piece : slice(group().leader_of_lane(lane))) {
      auto& received = hold.received.emplace_back();
      for (const LeaderBlock& from : group().leaders().blocks()) {
        const bool is_own = from.leader == group().leader_of_lane(lane);
        received.push_back(is_own ? nullptr : scratch(lane, travel_bytes(from.block, piece)));
      }
    }
  }

  [[nodiscard]] std::size_t travel_bytes(const Block& block, const Piece& piece) const {
    return bytes_of(piece.end - piece.begin, travel_dtype(block, bundle_of(piece)));
  }

  std::vector<FoldInput> leaves(std::size_t lane, std::size_t bundle) {
    std::vector<FoldInput> inputs;
    for (const void* const input : part(lane, bundle).inputs) inputs.push_back({input, false});
    return inputs;
  }

  std::vector<FoldInput> fold_nodes(std::size_t lane, std::size_t index) {
    const Bundle& bundle = bundles()[index];
    const std::vector<FoldInput> inputs = leaves(lane, index);
    std::vector<FoldInput> nodes;
    std::size_t next = 0;
    for (const Block& block : leader_of(lane).blocks) {
      const auto width = static_cast<std::size_t>(block.last - block.first);
      const auto own = std::span(inputs).subspan(std::exchange(next, next + width), width);
      if (width == 1 || bundle.count == 0) {
        nodes.push_back(own.front());
        continue;
      }
      void* const node = scratch(lane, bytes_of(bundle.count, accumulation_of(bundle)));
      fold(lane,
           {.op = descriptor().op,
            .dtype = bundle.dtype,
            .inputs = own,
            .merges = fold_merges_of_leaves(block),
            .outputs = std::span(&node, 1),
            .result = FoldResult::partial},
           bundle.count);
      nodes.push_back({node, true});
    }
    return nodes;
  }

  /// Both ends of a pair of GPUs walk pieces and blocks in the same order.
  void exchange_nodes() {
    const NcclComms& comms = *group().comms();
    const Leaders& leaders = group().leaders();
    NcclGroup calls(comms);
    for (std::size_t lane = 0; lane < lanes(); ++lane) {
      const int own = group().leader_of_lane(lane);
      for (int peer = 0; peer < leaders.size(); ++peer) {
        if (peer == own) continue;
        for (const Piece& piece : slice(peer)) send_nodes(calls, lane, peer, piece);
      }
      for (std::size_t p = 0; p < slice(own).size(); ++p) {
        for (std::size_t b = 0; b < leaders.blocks().size(); ++b) {
          const LeaderBlock& from = leaders.blocks()[b];
          if (from.leader == own) continue;
          calls.add(comms.api().recv(holds_[lane].received[p][b], travel_bytes(from.block, slice(own)[p]), DType::u8,
                                     from.leader, comms[lane], stream_of(lane)),
                    "ncclRecv");
        }
      }
    }
    calls.end();
  }

  void send_nodes(const NcclGroup& calls, std::size_t lane, int peer, const Piece& piece) {
    const NcclComms& comms = *group().comms();
    const std::vector<Block>& blocks = leader_of(lane).blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const void* const node = holds_[lane].nodes[piece.item][b].data;
      calls.add(comms.api().send(at(node, piece.begin, travel_dtype(blocks[b], bundle_of(piece))),
                                 travel_bytes(blocks[b], piece), DType::u8, peer, comms[lane], stream_of(lane)),
                "ncclSend");
    }
  }

  void fold_slice(std::size_t lane) {
    const int own = group().leader_of_lane(lane);
    for (std::size_t p = 0; p < slice(own).size(); ++p) {
      const Piece& piece = slice(own)[p];
      const std::vector<FoldInput> inputs = inputs_of(lane, p);
      const std::vector<void*> outputs = outputs_of(lane, piece);
      fold(lane,
           {.op = descriptor().op,
            .dtype = bundle_of(piece).dtype,
            .inputs = inputs,
            .merges = merges_,
            .outputs = outputs,
            .result = FoldResult::finished,
            .replicas = group().layout().replicas()},
           piece.end - piece.begin);
    }
  }

  /// In id order: what others sent, and this GPU's own.
  std::vector<FoldInput> inputs_of(std::size_t lane, std::size_t index) {
    const int own = group().leader_of_lane(lane);
    const Piece& piece = slice(own)[index];
    const DType leaf = bundle_of(piece).dtype;
    const std::vector<FoldInput>& nodes = holds_[lane].nodes[piece.item];
    std::vector<FoldInput> inputs;
    const auto add_own = [&](const FoldInput& node) {
      const DType dtype = node.accumulated ? accumulation_of(bundle_of(piece)) : leaf;
      inputs.push_back({at(node.data, piece.begin, dtype), node.accumulated});
    };
    if (is_alone()) {
      std::for_each(nodes.begin(), nodes.end(), add_own);
      return inputs;
    }
    std::size_t next = 0;
    const std::vector<LeaderBlock>& blocks = group().leaders().blocks();
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (blocks[b].leader == own) {
        add_own(nodes[next++]);
      } else {
        inputs.push_back({holds_[lane].received[index][b], blocks[b].block.last - blocks[b].block.first > 1});
      }
    }
    return inputs;
  }

  std::vector<void*> outputs_of(std::size_t lane, const Piece& piece) {
    const DType dtype = result_of(bundle_of(piece));
    if (is_scattered()) {
      const std::int64_t replica = piece.begin / (piece.end - piece.begin);
      return {output_of(items()[piece.item], static_cast<int>(replica))};
    }
    std::vector<void*> outputs;
    for (void* const output : part(lane, piece.item).outputs) outputs.push_back(at(output, piece.begin, dtype));
    void* const result = holds_[lane].results[piece.item];
    if (outputs.empty() && result != nullptr) outputs.push_back(at(result, piece.begin, dtype));
    return outputs;
  }

  void exchange_results() {
    const NcclComms& comms = *group().comms();
    NcclGroup calls(comms);
    for (std::size_t lane = 0; lane < lanes(); ++lane) {
      const int own = group().leader_of_lane(lane);
      for (int peer = 0; peer < group().leaders().size(); ++peer) {
        if (peer == own) continue;
        for (const Piece& piece : slice(own)) {
          if (!wants_result(peer)) break;
          calls.add(comms.api().send(result_at(lane, piece), result_bytes(piece), DType::u8, peer, comms[lane],
                                     stream_of(lane)),
                    "ncclSend");
        }
        for (const Piece& piece : slice(peer)) {
          if (!wants_result(own)) break;
          calls.add(comms.api().recv(result_at(lane, piece), result_bytes(piece), DType::u8, peer, comms[lane],
                                     stream_of(lane)),
                    "ncclRecv");
        }
      }
    }
    calls.end();
  }
  [[nodiscard]] void* result_at(std::size_t lane, const Piece& piece) const {
    return at(holds_[lane].results[piece.item], piece.begin, result_of(bundle_of(piece)));
  }
  [[nodiscard]] std::size_t result_bytes(const Piece& piece) const {
    return bytes_of(piece.end - piece.begin, result_of(bundle_of(piece)));
  }

  /// What others have folded, to the further outputs.
  void copy_results() {
    for (std::size_t lane = 0; lane < lanes(); ++lane) {
      std::vector<cuda::CopyPiece> pieces;
      for (int peer = 0; peer < group().leaders().size(); ++peer) {
        if (peer == group().leader_of_lane(lane)) continue;
        for (const Piece& piece : slice(peer)) {
          for (void* const output : part(lane, piece.item).outputs) {
            void* const target = at(output, piece.begin, result_of(bundle_of(piece)));
            if (target != result_at(lane, piece))
              pieces.push_back({result_at(lane, piece), target, result_bytes(piece)});
          }
        }
      }
      copy(lane, pieces);
    }
  }

  Slices slices_;
  std::vector<std::uint8_t> merges_;  // of the last fold
  std::vector<Hold> holds_;           // by lane
};

}  // namespace

std::shared_ptr<Operation> make_fold_exchange(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group,
                                              std::vector<HostItem> items) {
  return std::make_shared<FoldExchange>(descriptor, std::move(group), std::move(items));
}

}  // namespace lockstep::detail
