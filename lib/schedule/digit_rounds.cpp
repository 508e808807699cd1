// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/digit_rounds.hpp"

#include "schedule/cost_model.hpp"

#include <algorithm>
#include <array>

namespace lockstep::detail {
namespace {

/// The time of all rounds. Both the sender and the receiver spend an overhead on each message. If there are several
/// rounds, each round also copies its blocks into messages.
double rounds_us(const std::vector<DigitRound>& rounds, std::size_t block_bytes) {
  constexpr CostParameters rates;
  constexpr double bytes_per_us = 1000;  // of a rate in 10^9 bytes per second
  double time = 0;
  for (const DigitRound& round : rounds) {
    // all blocks but those whose digit is zero
    const int zeros =
        round.members / round.stride * round.weight + std::min(round.members % round.stride, round.weight);
    const double bytes = static_cast<double>(round.members - zeros) * static_cast<double>(block_bytes);
    time += rates.latency_us + 2 * rates.overhead_us * round.messages + bytes / (rates.port_gbs * bytes_per_us);
    if (rounds.size() > 1) time += bytes / (rates.node_gbs * bytes_per_us);
  }
  return time;
}

}  // namespace

std::vector<DigitRound> digit_rounds(int members, int radix) {
  std::vector<DigitRound> rounds;
  for (long long weight = 1; weight < members; weight *= radix) {
    const auto stride = std::min<long long>(weight * radix, members);
    const auto messages = std::min<long long>(radix - 1, (members - 1) / weight);
    rounds.push_back({members, static_cast<int>(weight), static_cast<int>(stride), static_cast<int>(messages)});
  }
  return rounds;
}

int all_to_all_radix(int members, std::size_t block_bytes) {
  int best = std::max(members, 2);
  double lowest = rounds_us(digit_rounds(members, best), block_bytes);
  for (const int radix : std::array{2, 3, 4, 6, 8, 12, 16}) {
    if (radix >= members) break;
    const double time = rounds_us(digit_rounds(members, radix), block_bytes);
    if (time < lowest) {
      lowest = time;
      best = radix;
    }
  }
  return best;
}

}  // namespace lockstep::detail
