// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Agreement by messages, between nodes whose ranks share memory or between ranks. Each node agrees on its control
// blocks. Then the leaders of all nodes, or all ranks if they share no memory, exchange a header in each round of
// schedule/agreement_pattern: the hash of what all ranks so far have called, or that some differ, and the data of a
// small operation. Last, each leader publishes the result on its node. If calls differ, the rounds are repeated with
// the descriptors, for the text of the error.
//
// Partners and number of the messages do not depend on what is called, and a rank sends all of them whatever it has
// received: a rank that does not come delays exactly those that need its message. About log4 nodes rounds.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/node_agreement.hpp"
#include "schedule/agreement_pattern.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::detail {

class MessageAgreement final : public Agreement {
 public:
  /// `group` is that of this rank's node, null if ranks share no memory; `node_leaders` as in Transport.
  MessageAgreement(ControlChannel& control, NodeGroup* group, int rank, std::span<const int> node_leaders);

  void enter_epoch(std::uint64_t epoch) noexcept override;
  [[nodiscard]] bool advance() override;
  [[nodiscard]] bool all_agree() const override { return !differs_; }
  [[nodiscard]] Summary summary() const override { return summary_; }
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const override;
  [[nodiscard]] std::int64_t last_sequence(int rank, std::uint64_t epoch) const override;
  [[nodiscard]] HeaderPeers header_peers() const override;
  [[nodiscard]] bool awaits_messages() const noexcept override {
    return phase_ == Phase::headers || phase_ == Phase::summaries;
  }
  void abandon() noexcept override;  // its messages are dropped in the next epoch

 private:
  enum class Phase : std::uint8_t { in_node, headers, summaries, result_of_leader, known };

  void do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) override;
  [[nodiscard]] bool do_is_shown() const noexcept override { return !node_ || node_->is_shown(); }
  /// Calls `take` with each source of this round that has not sent yet, until it returns false; whether all have sent.
  template <class Take>
  [[nodiscard]] bool take_round(const Take& take);
  void begin_headers();
  void send_header();
  [[nodiscard]] bool advance_headers();
  void join_parts(const AgreementRound& round);
  void begin_summaries();
  void send_summary();
  [[nodiscard]] bool advance_summaries();
  void conclude();
  [[nodiscard]] bool read_verdict();
  void publish_verdict();
  [[nodiscard]] std::span<std::byte> part() { return std::span(message_).subspan(sizeof(AgreementHeader)); }
  [[nodiscard]] std::byte* payload_of_leader() const;
  [[nodiscard]] int leader(int node) const { return leaders_[static_cast<std::size_t>(node)]; }
  /// The index of `rank` in this node's group; -1 if it is on another node.
  [[nodiscard]] int member_of(int rank) const;

  ControlChannel& control_;
  NodeGroup* group_;
  std::optional<NodeAgreement> node_;
  int rank_;
  std::vector<int> members_;            ///< the ranks of this node
  std::vector<int> leaders_;            ///< the leader of each node
  std::vector<AgreementRound> rounds_;  ///< empty on a rank that leads no node
  Phase phase_ = Phase::known;
  Operation* head_ = nullptr;
  CarriedData* carried_ = nullptr;  ///< null if the data does not travel with the agreement, or calls differ
  std::uint64_t epoch_ = 0;
  std::int64_t sequence_ = 0;
  std::uint64_t tag_ = 0;
  std::size_t round_ = 0;
  std::size_t next_ = 0;  ///< the sources before it have sent
  bool differs_ = false;
  Summary summary_;
  std::vector<std::byte> message_;                              ///< header, then the part of the ranks so far
  std::vector<std::byte> joined_;                               ///< the next one
  std::vector<std::optional<ControlChannel::Header>> headers_;  ///< of this round, by source
  std::vector<const std::byte*> parts_;
};

}  // namespace lockstep::detail
