// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures how fast messages of MPI and connections over TCP are between the nodes of a new group, so that all its
// ranks choose the same one (LOCKSTEP_TRANSPORT=auto).

#pragma once

#include "bindings/mpi/pending.hpp"
#include "transport/tcp/network.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// What one rank has measured: nanoseconds for data there and back, the least of several.
struct TrialResult {
  std::uint64_t mpi_small = 0;
  std::uint64_t mpi_large = 0;
  std::uint64_t tcp_small = 0;
  std::uint64_t tcp_large = 0;
  std::uint32_t has_measured = 0;  ///< 1: the times are valid
  std::uint32_t has_no_tcp = 0;    ///< 1: there was no time, or the connection has ended
};

struct TrialVerdict {
  bool is_tcp = false;
  std::string text;  ///< with what was measured
};

/// TCP if it takes at most 1.1 of MPI's time: the geometric mean of small and of large data, and the median of all that
/// have measured. With something better than TCP, MPI takes a fraction. MPI also if any rank had no TCP. `all` is by
/// rank.
[[nodiscard]] TrialVerdict verdict_on(std::span<const TrialResult> all);

/// Two ranks of different nodes send data to and fro, at the same time as the other pairs: first by messages of MPI,
/// then over TCP. Then all ranks exchange what they have measured. On a network of 1 Gbit/s, that takes 50 ms.
/// Not thread-safe.
class TransportTrial {
 public:
  static constexpr std::size_t small_bytes = 64;
  static constexpr std::size_t large_bytes = std::size_t{256} << 10;

  struct Pair {
    int partner = -1;  ///< the other rank; -1: this rank measures nothing
    bool is_first = false;
    int peer = -1;  ///< of the network
  };
  /// `comm` has the `size` ranks of the new group, and carries no other message. `group` is a number of the network
  /// that nothing else uses, the same on all ranks. The pair may be busy with TCP for `time_of_tcp`, from its first
  /// message on. Local.
  TransportTrial(MPI_Comm comm, int size, Pair pair, std::shared_ptr<TcpNetwork> network, std::uint64_t group,
                 std::chrono::milliseconds time_of_tcp);
  TransportTrial(const TransportTrial&) = delete;
  TransportTrial& operator=(const TransportTrial&) = delete;
  /// Leaks the memory that MPI may still access.
  ~TransportTrial();

  /// Goes on, for some milliseconds at most; if the last call has not got further, looks once. Returns whether the
  /// ranks have exchanged their results.
  [[nodiscard]] bool test();
  /// By rank. Called after `test` has returned true.
  [[nodiscard]] std::vector<TrialResult> results() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Medium : std::uint8_t { mpi, tcp };
  /// Some rounds there and back.
  struct Block {
    Medium medium;
    std::size_t bytes;
    int rounds;
    std::uint64_t TrialResult::* result;  // null: for warm-up
  };
  struct Memory;

  void begin_round();
  [[nodiscard]] bool ends_round();
  void begin_send();
  void end_block();
  void end_pair() noexcept;
  [[nodiscard]] bool is_over(TcpTransfer& transfer, MPI_Request& request);

  const MPI_Comm comm_;
  const int size_;
  const Pair pair_;
  const std::shared_ptr<TcpNetwork> network_;
  const std::uint64_t group_;
  const std::chrono::milliseconds time_of_tcp_;
  std::vector<Block> blocks_;
  std::size_t block_ = 0;
  int round_ = 0;
  bool has_advanced_ = true;  // in the last call
  bool is_in_round_ = false;
  bool has_received_ = false;
  bool has_sent_ = false;  // or has begun to
  Clock::time_point begin_of_block_;
  Clock::time_point end_of_tcp_ = Clock::time_point::max();
  std::unique_ptr<Memory> memory_;
  TrialResult own_;
  std::unique_ptr<mpi::PendingAllGather> gather_;
};

}  // namespace lockstep::detail
