// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// broadcast, all_gather and gather inside a node, through shared memory. Every consumer of an input copies the input to
// its own outputs; the producer of the input only waits until all consumers have copied the input. A barrier is the
// same operation without data.
//
// If the inputs of each rank have at most `flat_bytes` bytes, consumers copy them from the payloads. This takes
// the time of one cache-line transfer, and producers do not wait for consumers. Larger inputs are copied from the
// producer's buffers: each consumer reads and writes every byte once, and a second cache-line transfer tells the
// producers that the consumers have finished.

#include "base/processor.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/host/node_operation.hpp"
#include "kernels/copy.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::detail {
namespace {

int inputs_produced(const Descriptor& descriptor, const ReplicaLayout& layout, int rank) {
  switch (descriptor.traits().inputs) {
    case Place::none: return 0;
    case Place::root: return rank == descriptor.root ? 1 : 0;
    default: return layout.count(rank);
  }
}

NodeRoles roles_of(const Descriptor& descriptor, const ReplicaLayout& layout, int own) {
  const auto wants = [&](int rank) { return descriptor.traits().outputs != Place::root || rank == descriptor.root; };
  NodeRoles roles;
  for (int rank = 0; rank < layout.ranks(); ++rank) roles.inputs.push_back(inputs_produced(descriptor, layout, rank));
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    if (rank == own) continue;
    if (wants(own) && roles.inputs[static_cast<std::size_t>(rank)] > 0) roles.producers.push_back(rank);
    if (wants(rank) && roles.inputs[static_cast<std::size_t>(own)] > 0) roles.consumers.push_back(rank);
  }
  return roles;
}

class NodeCopy final : public NodeOperation {
 public:
  NodeCopy(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
           const std::vector<HostItem>& items, const NodeTuning& tuning)
      : NodeOperation(
            descriptor, layout, group, items, without_outputs(items),
            [this, bytes = tuning.round_bytes] { return cut_rounds(this->items(), ReduceOp::sum, 1, bytes); },
            roles_of(descriptor, layout, group.rank()), tuning) {
    // first the inputs of this rank, then the inputs of the producers in cyclic order, beginning after this rank
    if (inputs_of(rank()) > 0) sources_.push_back(rank());
    const auto& producers = roles().producers;
    const auto after = std::upper_bound(producers.begin(), producers.end(), rank());
    sources_.insert(sources_.end(), after, producers.end());
    sources_.insert(sources_.end(), producers.begin(), after);
    int inputs = 0;
    for (const int count : roles().inputs) inputs += count;
    const std::size_t bytes = bytes_of_one_input(items);
    // non-temporal stores if the inputs and outputs of all ranks together exceed the last-level cache
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
        rounds().front(),
        [&](int rank, const StagedRange& staged, std::size_t i) { return payload_input(rank, staged, i); },
        [](const Copy& copy) { copy_bytes(copy.target, copy.source, copy.bytes); });
  }

  /// Keeps the list of copies, so that a repeated call does not compute the list again.
  void do_direct(bool has_changed) override {
    if (has_changed) {
      copies_.clear();
      for_each_copy(
          cut_rounds(items(), ReduceOp::sum, 1, unlimited_round_bytes).front(),
          [&](int rank, const StagedRange& staged, std::size_t i) { return visible_input(rank, staged.range, i); },
          [&](const Copy& copy) { add_turns(copy); });
    }
    for (const Copy& copy : copies_) {
      if (!goes_on(2 * copy.bytes)) return;
      copy_bytes(copy.target, copy.source, copy.bytes, kind_);
    }
  }

  /// Adds `copy` to the list, cut into copies that each read and write at most NodeWork::turn_bytes bytes, so that this
  /// rank can check between two copies for an abandoned operation.
  void add_turns(const Copy& copy) {
    constexpr std::size_t most = NodeWork::turn_bytes / 2;
    for (std::size_t begin = 0; begin < copy.bytes; begin += most)
      copies_.push_back({copy.target + begin, copy.source + begin, std::min(most, copy.bytes - begin)});
  }

  void do_round() override {
    bool stops = false;
    for_each_copy(
        round(), [&](int rank, const StagedRange& staged, std::size_t i) { return input_of_round(rank, staged, i); },
        [&](const Copy& copy) {
          stops = stops || !goes_on(2 * copy.bytes);
          if (!stops) copy_bytes(copy.target, copy.source, copy.bytes, kind_);
        });
  }

  /// Calls `visit` for each copy that this rank makes in `round`; `find` returns the address of a range of an input.
  template <class Find, class Visit>
  void for_each_copy(const NodeRound& round, const Find& find, const Visit& visit) {
    for (const int rank : sources_) {
      for (const StagedRange& staged : round.slices.front()) {
        const HostItem& item = items()[staged.range.item];
        if (item.outputs.empty()) continue;
        const std::size_t bytes = static_cast<std::size_t>(staged.range.end - staged.range.begin) * size_of(item.dtype);
        for (int i = 0; i < inputs_of(rank); ++i) {
          const std::byte* const source = find(rank, staged, static_cast<std::size_t>(i));
          const std::int64_t begin = first_element(item, rank, i) + staged.range.begin;
          for (void* const output : item.outputs) {
            std::byte* const target = at(static_cast<std::byte*>(output), begin, item.dtype);
            if (target != source) visit({target, source, bytes});
          }
        }
      }
    }
  }

  /// The position in an output of the first element of input `i` of `rank`.
  [[nodiscard]] std::int64_t first_element(const HostItem& item, int rank, int i) const {
    return descriptor().traits().inputs == Place::root ? 0 : (layout().first(rank) + i) * item.count();
  }

  std::vector<int> sources_;  ///< ranks whose inputs this rank copies
  CopyKind kind_ = CopyKind::cached;

  // kept between runs
  std::vector<Copy> copies_;
};

}  // namespace

std::shared_ptr<Operation> make_node_copy(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                                          const std::vector<HostItem>& items, const NodeTuning& tuning) {
  return std::make_shared<NodeCopy>(descriptor, layout, group, items, tuning);
}

}  // namespace lockstep::detail
