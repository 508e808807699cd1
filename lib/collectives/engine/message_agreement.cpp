// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/message_agreement.hpp"

#include "schedule/dissemination.hpp"

namespace lockstep::detail {

void MessageAgreement::do_open(std::uint64_t epoch, std::int64_t sequence, Operation& head) {
  epoch_ = epoch;
  sequence_ = sequence;
  round_ = 0;
  summary_ = {};
  summary_.lowest = {rank_, head.descriptor()};
  send();
}

bool MessageAgreement::advance() {
  while (round_ < dissemination_rounds(size_)) {
    const int source = dissemination_source(rank_, round_, size_);
    const auto received = control_.take_header(source, epoch_, sequence_, static_cast<std::uint32_t>(round_));
    if (!received) return false;
    summary_ = merge(summary_, *received);
    ++round_;
    send();
  }
  return true;
}

void MessageAgreement::send() {
  if (round_ >= dissemination_rounds(size_)) return;
  control_.send_header(dissemination_target(rank_, round_, size_), epoch_, sequence_,
                       static_cast<std::uint32_t>(round_), summary_);
}

}  // namespace lockstep::detail
