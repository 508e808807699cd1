// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_copy.hpp"

#include "base/processor.hpp"
#include "collectives/call/host_item.hpp"
#include "kernels/copy.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::detail {
namespace {

int inputs_given(const Descriptor& descriptor, const ReplicaLayout& layout, int rank) {
  switch (descriptor.traits().inputs) {
    case Place::none: return 0;
    case Place::root: return rank == descriptor.root ? 1 : 0;
    default: return layout.count(rank);
  }
}

NodeRoles roles_of(const Descriptor& descriptor, const ReplicaLayout& layout, int own) {
  const auto wants = [&](int rank) { return descriptor.traits().outputs != Place::root || rank == descriptor.root; };
  NodeRoles roles;
  for (int rank = 0; rank < layout.ranks(); ++rank) roles.inputs.push_back(inputs_given(descriptor, layout, rank));
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    if (rank == own) continue;
    if (wants(own) && roles.inputs[static_cast<std::size_t>(rank)] > 0) roles.givers.push_back(rank);
    if (wants(rank) && roles.inputs[static_cast<std::size_t>(own)] > 0) roles.takers.push_back(rank);
  }
  return roles;
}

/// Outputs are written by their own rank alone.
std::vector<HostItem> without_outputs(std::vector<HostItem> items) {
  for (HostItem& item : items) item.outputs.clear();
  return items;
}

class NodeCopy final : public NodeOperation {
 public:
  NodeCopy(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
           const std::vector<HostItem>& items, const NodeTuning& tuning)
      : NodeOperation(descriptor, layout, group, items, without_outputs(items),
                      cut_rounds(items, ReduceOp::sum, 1, tuning.round_bytes),
                      roles_of(descriptor, layout, group.rank()), tuning) {
    // the own inputs first; then every rank begins with another giver
    if (inputs_of(rank()) > 0) sources_.push_back(rank());
    const auto& givers = roles().givers;
    const auto after = std::upper_bound(givers.begin(), givers.end(), rank());
    sources_.insert(sources_.end(), after, givers.end());
    sources_.insert(sources_.end(), givers.begin(), after);
    int inputs = 0;
    for (const int count : roles().inputs) inputs += count;
    std::size_t bytes = 0;
    for (const HostItem& item : items) bytes += static_cast<std::size_t>(item.count()) * size_of(item.dtype);
    // inputs and outputs of all ranks together
    const int writers = descriptor.traits().outputs == Place::root ? 1 : layout.ranks();
    const auto copies = static_cast<std::size_t>(inputs) * static_cast<std::size_t>(writers + 1);
    if (copies > 0 && bytes > last_level_cache_bytes() / copies) kind_ = CopyKind::streamed;
  }

 private:
  struct Copy {
    std::byte* target;
    const std::byte* source;
    std::size_t bytes;
  };

  void do_flat() override {
    for_each_copy(
        rounds().front(), [&](int rank, const StagedPiece& part, std::size_t i) { return inline_input(rank, part, i); },
        [](const Copy& copy) { copy_bytes(copy.target, copy.source, copy.bytes); });
  }

  /// The copies are written down, so that a call repeated does nothing but them.
  void do_direct(bool has_changed) override {
    if (has_changed) {
      copies_.clear();
      for_each_copy(
          cut_rounds(items(), ReduceOp::sum, 1, unlimited_round_bytes).front(),
          [&](int rank, const StagedPiece& part, std::size_t i) { return visible_input(rank, part.piece, i); },
          [&](const Copy& copy) { copies_.push_back(copy); });
    }
    for (const Copy& copy : copies_) copy_bytes(copy.target, copy.source, copy.bytes, kind_);
  }

  void do_round() override {
    for_each_copy(
        round(), [&](int rank, const StagedPiece& part, std::size_t i) { return input_of_round(rank, part, i); },
        [&](const Copy& copy) { copy_bytes(copy.target, copy.source, copy.bytes, kind_); });
  }

  /// Calls `visit` for all that this rank copies of `round`; `find` says where an input's piece lies.
  template <class Find, class Visit>
  void for_each_copy(const NodeRound& round, const Find& find, const Visit& visit) {
    for (const int rank : sources_) {
      for (const StagedPiece& part : round.slices.front()) {
        const HostItem& item = items()[part.piece.item];
        if (item.outputs.empty()) continue;
        const std::size_t bytes = static_cast<std::size_t>(part.piece.end - part.piece.begin) * size_of(item.dtype);
        for (int i = 0; i < inputs_of(rank); ++i) {
          const std::byte* const source = find(rank, part, static_cast<std::size_t>(i));
          const std::int64_t begin = first_element(item, rank, i) + part.piece.begin;
          for (void* const output : item.outputs) {
            std::byte* const target = at(static_cast<std::byte*>(output), begin, item.dtype);
            if (target != source) visit({target, source, bytes});
          }
        }
      }
    }
  }

  /// Where input `i` of `rank` begins in an output.
  [[nodiscard]] std::int64_t first_element(const HostItem& item, int rank, int i) const {
    return descriptor().traits().inputs == Place::root ? 0 : (layout().first(rank) + i) * item.count();
  }

  std::vector<int> sources_;  ///< whose inputs this rank copies
  CopyKind kind_ = CopyKind::cached;

  // kept from life to life
  std::vector<Copy> copies_;
};

}  // namespace

std::shared_ptr<Operation> make_node_copy(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                                          const std::vector<HostItem>& items, const NodeTuning& tuning) {
  return std::make_shared<NodeCopy>(descriptor, layout, group, items, tuning);
}

}  // namespace lockstep::detail
