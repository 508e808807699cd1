// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/column_exchange.hpp"

#include <cstring>

namespace lockstep::detail {

ColumnExchange::ColumnExchange(int nodes, int members, int rank, std::size_t rank_bytes)
    : nodes_(nodes), members_(members), rank_(rank), rank_bytes_(rank_bytes) {
  rounds_ = digit_rounds(nodes, all_to_all_radix(nodes, block_bytes()));
}

int ColumnExchange::rank_at(int distance, int column) const {
  const int node = (rank_ / members_ + distance % nodes_ + nodes_) % nodes_;
  return node * members_ + column;
}

void ColumnExchange::start(Workspace& workspace, Transfers& transfers) {
  memory_ = transfers.new_buffer(workspace, static_cast<std::size_t>(nodes_) * block_bytes()).data();
  for (int distance = 0; distance < nodes_; ++distance) blocks_.push_back(part_to(distance, 0));
}

std::byte* ColumnExchange::part_to(int distance, int member) const {
  return memory_ + (static_cast<std::size_t>(distance * members_) + static_cast<std::size_t>(member)) * rank_bytes_;
}

const std::byte* ColumnExchange::part_from(int distance, int member) const {
  return blocks_[static_cast<std::size_t>(distance)] + static_cast<std::size_t>(member) * rank_bytes_;
}

void ColumnExchange::post_round(Transport& transport, Workspace& workspace, Transfers& transfers) {
  const DigitRound& round = rounds_[round_];
  const auto bytes_of = [&](int message) {
    return static_cast<std::size_t>(round.block_count(message)) * block_bytes();
  };
  received_.clear();
  for (int message = 1; message <= round.messages; ++message) {
    const int source = rank_at(-message * round.weight, column());
    received_.push_back(transfers.receive(transport, workspace, source, bytes_of(message)));
  }
  for (int message = 1; message <= round.messages; ++message) {
    const int target = rank_at(message * round.weight, column());
    if (round.block_count(message) == 1) {  // no block is written again, so it can be sent from where it is
      const int number = message * round.weight;
      const std::byte* const block = blocks_[static_cast<std::size_t>(number)];
      transfers.send(transport, target, {block, block_bytes()});
      continue;
    }
    const std::span<std::byte> packed = transfers.new_buffer(workspace, bytes_of(message));
    std::byte* next = packed.data();
    round.for_each_block(message, [&](int block) {
      std::memcpy(next, blocks_[static_cast<std::size_t>(block)], block_bytes());
      next += block_bytes();
    });
    transfers.send(transport, target, packed);
  }
}

void ColumnExchange::take_round() {
  const DigitRound& round = rounds_[round_];
  for (int message = 1; message <= round.messages; ++message) {
    const std::byte* next = received_[static_cast<std::size_t>(message - 1)];
    round.for_each_block(message, [&](int block) {
      blocks_[static_cast<std::size_t>(block)] = next;
      next += block_bytes();
    });
  }
}

bool ColumnExchange::advance(Transport& transport, Workspace& workspace, Transfers& transfers) {
  while (round_ < rounds_.size()) {
    if (!transfers.all_received(transport)) return false;
    take_round();
    if (++round_ < rounds_.size()) post_round(transport, workspace, transfers);
  }
  return true;
}

}  // namespace lockstep::detail
