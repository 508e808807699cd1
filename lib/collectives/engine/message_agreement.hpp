// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Agreement by messages: between nodes whose ranks share memory, or between all ranks if ranks share no memory.
//  1. The ranks of each node agree through their control blocks.
//  2. The leaders of all nodes exchange headers in the rounds of schedule/agreement_pattern. (If ranks share no memory,
//     every rank is a leader.) A header describes the calls of all ranks that the sender knows of so far: it has the
//     hash of their call, or says that their calls differ. The data of a small operation follows the header.
//  3. If calls differ, the leaders repeat the rounds with descriptors, for the text of the error.
//  4. Each leader publishes the result in the memory of its node.
//
// The partners and the number of messages do not depend on the call, and a rank sends all its messages whatever it
// receives. So a missing rank delays exactly those ranks that need its messages. Cost: about log4 N rounds for N nodes.

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
  /// `group` is the NodeGroup of this rank's node; null if ranks share no memory. `node_leaders`: as in Transport.
  MessageAgreement(ControlChannel& control, NodeGroup* group, int rank, std::span<const int> node_leaders);

  void enter_epoch(std::uint64_t epoch) noexcept override;
  [[nodiscard]] bool advance() override;
  [[nodiscard]] bool all_agree() const override { return !differs_; }
  [[nodiscard]] Summary summary() const override { return summary_; }
  [[nodiscard]] bool has_come(int rank, std::uint64_t epoch, std::int64_t sequence) const override;
  [[nodiscard]] std::int64_t last_sequence(int rank, std::uint64_t epoch) const override;
  [[nodiscard]] std::vector<int> awaited() const override;
  [[nodiscard]] HeaderPeers header_peers() const override;
  [[nodiscard]] bool awaits_messages() const noexcept override {
    return phase_ == Phase::headers || phase_ == Phase::summaries;
  }
  void abandon() noexcept override;  // the next epoch drops the messages of the operation

 private:
  enum class Phase : std::uint8_t { in_node, headers, summaries, result_of_leader, known };

  void do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) override;
  [[nodiscard]] bool do_is_shown() const noexcept override { return !node_ || node_->is_shown(); }
  /// Calls `take` for each source of this round whose message is missing, until `take` returns false. Returns whether
  /// the messages of all sources have arrived.
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
  [[nodiscard]] const std::byte* part_of(int member) const;
  [[nodiscard]] int leader(int node) const { return leaders_[static_cast<std::size_t>(node)]; }
  /// The index of `rank` in this node's group; -1 if it is on another node.
  [[nodiscard]] int member_of(int rank) const;

  ControlChannel& control_;
  NodeGroup* group_;
  std::optional<NodeAgreement> node_;
  int rank_;
  std::vector<int> members_;            ///< the ranks of this node
  std::vector<int> leaders_;            ///< the leader of each node
  std::vector<AgreementRound> rounds_;  ///< empty if this rank is not a leader
  Phase phase_ = Phase::known;
  Operation* head_ = nullptr;
  CarriedData* carried_ = nullptr;  ///< data in the headers; null if there is none, or calls on this node differ
  std::uint64_t epoch_ = 0;
  std::int64_t sequence_ = 0;
  std::uint64_t tag_ = 0;
  std::size_t round_ = 0;
  std::size_t next_ = 0;  ///< index of the first source of this round whose message is missing
  bool differs_ = false;
  Summary summary_;
  std::vector<std::byte> message_;                              ///< header, then the joined part (see CarriedData)
  std::vector<std::byte> joined_;                               ///< buffer in which the next message_ is made
  std::vector<std::optional<ControlChannel::Header>> headers_;  ///< headers received in this round, by source
  std::vector<const std::byte*> parts_;
};

}  // namespace lockstep::detail
