// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "doctor/measure.hpp"

#include "doctor/checks.hpp"

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/arena.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace doctor {
namespace {

constexpr int clock_rounds = 20;
constexpr std::chrono::seconds answer_limit(5);

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// One round trip in seconds between this rank and `peer`; nullopt after 5 s. The rank of the lower number sends first.
std::optional<double> round_trip(int rank, int peer, std::span<std::byte> bytes) {
  const auto begin = Clock::now();
  const auto deadline = begin + answer_limit;
  const bool is_done =
      rank < peer ? Messages::send_bytes(peer, bytes, deadline) && Messages::receive_bytes(peer, bytes, deadline)
                  : Messages::receive_bytes(peer, bytes, deadline) && Messages::send_bytes(peer, bytes, deadline);
  if (!is_done) return std::nullopt;
  return seconds_since(begin);
}

/// The median round trip; the first byte of each message tells the other rank whether another one follows.
std::optional<double> median_round_trip(int rank, int peer, std::span<std::byte> bytes, double seconds) {
  std::vector<double> times;
  const auto begin = Clock::now();
  const bool leads = rank < peer;
  for (bool goes_on = true; goes_on;) {
    if (leads) {
      goes_on = times.size() < 4 || (times.size() < 20000 && seconds_since(begin) < seconds);
      if (!times.empty() && seconds_since(begin) > std::max(1.0, 2 * seconds)) goes_on = false;  // a very slow link
      bytes.front() = std::byte(goes_on ? 1 : 0);
    }
    const auto time = round_trip(rank, peer, bytes);
    if (!time) return std::nullopt;
    times.push_back(*time);
    if (!leads) goes_on = bytes.front() != std::byte(0);
  }
  if (times.size() > 2) times.erase(times.begin());  // the first one makes connections
  return median_of(times);
}

using Groups = std::vector<std::vector<int>>;

/// Pairs of each group, at growing distances on a ring.
void append_pairs(const Groups& groups, bool is_between, std::size_t most, std::vector<Link>& links) {
  std::size_t largest = 0;
  for (const auto& group : groups) largest = std::max(largest, group.size());
  for (std::size_t distance = 1; distance <= largest / 2; ++distance) {
    for (const auto& group : groups) {
      if (distance > group.size() / 2) continue;
      const std::size_t pairs = 2 * distance == group.size() ? distance : group.size();
      for (std::size_t i = 0; i < pairs && links.size() < most; ++i) {
        const auto [first, second] = std::minmax(group[i], group[(i + distance) % group.size()]);
        links.push_back({first, second, is_between});
      }
    }
  }
}

}  // namespace

double compute_ms() {
  constexpr int repetitions = 25;
  volatile std::uint64_t kept = 88172645463325252;  // so that the compiler computes nothing in advance
  const auto begin = Clock::now();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    std::uint64_t value = kept;
    for (int i = 0; i < 1'000'000; ++i) {  // xorshift (Marsaglia 2003): each step waits for the one before
      value ^= value << 13;
      value ^= value >> 7;
      value ^= value << 17;
    }
    kept = value;
  }
  return seconds_since(begin) * 1e3 / repetitions;
}

void measure_link(Link& link, int rank, double seconds) {
  const int peer = rank == link.first ? link.second : link.first;
  static std::array<std::byte, 8> small{};  // static, because MPI may use them after a timeout
  static std::vector<std::byte> large(std::size_t{1} << 20);
  const auto latency = median_round_trip(rank, peer, small, seconds / 2);
  const auto transfer = latency ? median_round_trip(rank, peer, large, seconds / 2) : std::nullopt;
  if (latency) link.latency_us = *latency / 2 * 1e6;
  if (transfer) link.bandwidth_gbs = static_cast<double>(large.size()) / (*transfer / 2) / 1e9;
  if (!transfer) link.error = "no answer from rank " + std::to_string(peer) + " within 5 s";
}

double all_reduce_us(const lockstep::Communicator& pair, double seconds) {
  std::vector<float, lockstep::ArenaAllocator<float>> values(16384, 1.0F);
  std::vector<double> times;
  const auto begin = Clock::now();
  // every rank must make the same number of calls: the sum of both ranks' wishes to go on decides
  for (float goes_on = 2; goes_on == 2;) {
    for (int i = 0; i < 20; ++i) {
      std::fill(values.begin(), values.end(), 1.0F);
      const auto start = Clock::now();
      pair.all_reduce(values, lockstep::ReduceOp::sum);
      times.push_back(seconds_since(start) * 1e6);
    }
    std::array<float, 1> wish{seconds_since(begin) < seconds ? 1.0F : 0.0F};
    pair.all_reduce(std::span<float>(wish), lockstep::ReduceOp::sum);
    goes_on = wish[0];
  }
  if (values.front() != 2.0F || values.back() != 2.0F)
    throw std::runtime_error("all_reduce gave a wrong sum: " + std::to_string(values.front()) + " instead of 2");
  return median_of(times);
}

void answer_clock() {
  static std::array<std::byte, 8> bytes{};
  for (int i = 0; i < clock_rounds; ++i) {
    if (!Messages::receive_bytes(0, bytes, Clock::now() + answer_limit)) return;
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::memcpy(bytes.data(), &now, sizeof(now));
    if (!Messages::send_bytes(0, bytes, Clock::now() + answer_limit)) return;
  }
}

void measure_clock(int other, RankFacts& facts) {
  static std::array<std::byte, 8> bytes{};
  const auto wall = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  for (int i = 0; i < clock_rounds; ++i) {
    const double before = wall();
    const auto begin = Clock::now();
    if (!Messages::send_bytes(other, bytes, begin + answer_limit) ||
        !Messages::receive_bytes(other, bytes, begin + answer_limit))
      return;
    const double half = seconds_since(begin) / 2;
    double theirs = 0;
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    if (facts.clock_error_s >= 0 && half >= facts.clock_error_s) continue;
    facts.clock_error_s = half;
    facts.clock_offset_s = theirs - (before + half);
  }
}

std::vector<Link> choose_links(const std::vector<RankFacts>& ranks, std::size_t most) {
  std::map<int, std::vector<int>> nodes;
  for (const RankFacts& facts : ranks) nodes[facts.node].push_back(facts.rank);
  Groups inside;
  std::vector<int> leaders;
  for (const auto& [node, members] : nodes) {
    inside.push_back(members);
    leaders.push_back(members.front());
  }
  const bool has_inside = std::any_of(inside.begin(), inside.end(), [](const auto& each) { return each.size() > 1; });
  std::vector<Link> links;
  append_pairs({leaders}, true, has_inside ? (most + 1) / 2 : most, links);
  append_pairs(inside, false, most, links);
  return links;
}

}  // namespace doctor
