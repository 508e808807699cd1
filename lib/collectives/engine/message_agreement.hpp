// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Agreement by dissemination of summaries: ceil(log2 P) messages per rank.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"

#include <cstdint>

namespace lockstep::detail {

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

}  // namespace lockstep::detail
