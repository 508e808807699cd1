// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Agreement by dissemination of summaries: between all ranks, or between the leaders of nodes.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/node_agreement.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Between all ranks: ceil(log2 P) messages per rank.
class MessageAgreement final : public Agreement {
 public:
  MessageAgreement(ControlChannel& control, int rank, int size) : control_(control), rank_(rank), size_(size) {}

  [[nodiscard]] bool advance() override;
  [[nodiscard]] bool all_agree() const override { return summary_.differing.rank < 0; }
  [[nodiscard]] Summary summary() const override { return summary_; }
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const override {
    return control_.has_come(rank, epoch, sequence);
  }
  [[nodiscard]] std::int64_t last_sequence(int rank, std::uint64_t) const override {
    return control_.last_sequence(rank);
  }
  [[nodiscard]] std::vector<int> header_targets() const override;
  void abandon() noexcept override {}  // its messages are dropped in the next epoch

 private:
  void do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) override;
  void send();

  ControlChannel& control_;
  int rank_;
  int size_;
  std::uint64_t epoch_ = 0;
  std::int64_t sequence_ = 0;
  int round_ = 0;
  Summary summary_;
};

/// Between nodes whose ranks share memory: each node agrees on its control blocks, then the leaders of all nodes agree
/// by dissemination, then each leader publishes the result on its node. ceil(log2 nodes) messages per node.
class HostsAgreement final : public Agreement {
 public:
  /// `group` is that of this rank's node, `node_leaders` as in Transport.
  HostsAgreement(ControlChannel& control, NodeGroup& group, int rank, std::span<const int> node_leaders);

  void enter_epoch(std::uint64_t epoch) noexcept override { node_.enter_epoch(epoch); }
  [[nodiscard]] bool advance() override;
  [[nodiscard]] bool all_agree() const override { return summary_.differing.rank < 0; }
  [[nodiscard]] Summary summary() const override { return summary_; }
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const override;
  [[nodiscard]] std::int64_t last_sequence(int rank, std::uint64_t epoch) const override;
  [[nodiscard]] std::vector<int> header_targets() const override;
  void abandon() noexcept override { node_.abandon(); }

 private:
  enum class Phase : std::uint8_t { in_node, between_nodes, known };

  void do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) override;
  [[nodiscard]] bool do_is_shown() const noexcept override { return node_.is_shown(); }
  [[nodiscard]] bool advance_between_nodes();
  [[nodiscard]] bool read_verdict();
  void send_to_leader();
  void publish_verdict();
  /// The index of `rank` in this node's group; -1 if it is on another node.
  [[nodiscard]] int member_of(int rank) const;

  ControlChannel& control_;
  NodeGroup& group_;
  NodeAgreement node_;
  std::vector<int> members_;  ///< the ranks of this node
  std::vector<int> leaders_;  ///< the leader of each node
  int node_index_ = 0;
  Phase phase_ = Phase::known;
  std::uint64_t epoch_ = 0;
  std::int64_t sequence_ = 0;
  std::uint64_t tag_ = 0;
  int round_ = 0;
  Summary summary_;
};

}  // namespace lockstep::detail
