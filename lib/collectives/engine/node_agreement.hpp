// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Agreement through the control blocks of a node: each rank writes its descriptor beside its arrival flag, and compares
// the descriptor hashes of all ranks. Cost: one transfer of a cache line between cores. On a node with many ranks, a
// rank compares its call with those of a few neighbours, and level_climb has the further levels.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/level_climb.hpp"
#include "transport/shm/node_group.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::detail {

class NodeAgreement final : public Agreement {
 public:
  /// `is_whole`: the ranks of the node are all ranks. If not, carried data travels between the nodes, and this
  /// agreement carries none.
  NodeAgreement(NodeGroup& group, bool is_whole);

  void enter_epoch(std::uint64_t epoch) noexcept override;
  [[nodiscard]] bool advance() override;
  [[nodiscard]] bool all_agree() const override { return !differs_; }
  [[nodiscard]] Summary summary() const override;
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const override {
    return last_sequence(rank, epoch) >= sequence;
  }
  [[nodiscard]] std::int64_t last_sequence(int rank, std::uint64_t epoch) const override;
  [[nodiscard]] std::vector<int> awaited() const override;
  void abandon() noexcept override;

 private:
  void do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) override;
  [[nodiscard]] bool do_is_shown() const noexcept override { return is_shown_; }
  /// Writes the descriptor and the arrival flag of this rank to the operation's slot (ControlBlock::slot_of), if the
  /// slot is free. Returns whether they are written.
  bool show();

  NodeGroup& group_;
  std::optional<LevelClimb> climb_;                                     // empty if there is one level
  std::array<std::vector<const Arrival*>, ControlBlock::slots> peers_;  // by slot: the arrivals to read
  std::array<std::uint64_t, ControlBlock::slots> written_{};            // by slot: hash of the descriptor in the slot
  std::array<std::uintptr_t, ControlBlock::slots> written_places_{};    // by slot: Operation::place of that descriptor
  Operation* head_ = nullptr;
  std::uint64_t followed_epoch_ = 0;  // no rank is more than one epoch behind this epoch
  std::uint64_t tag_ = 0;
  std::uint64_t hash_ = 0;
  std::size_t slot_ = 0;
  std::size_t next_ = 0;  // index of the first peer that has not arrived yet
  bool is_shown_ = false;
  bool differs_ = false;
};

}  // namespace lockstep::detail
