// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts NCCL on all ranks. If the start fails on one rank, NCCL is used on no rank.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/nccl/comms.hpp"
#include "transport/buffer.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Starts NCCL on this rank, and sends the outcome to all other ranks: P-1 small messages per rank. If the start fails
/// on one rank, the other ranks abort NCCL immediately, because they would wait for the failed rank. When the operation
/// is done, all ranks know the same outcome.
class NcclStart final : public Operation {
 public:
  /// `comms` become the NCCL ranks `first`, `first` + 1, ... of `all`. On a rank that leads no GPU, `comms` is null,
  /// and the rank only exchanges outcomes. A start that takes longer than `timeout` is a failure.
  NcclStart(const Descriptor& descriptor, std::shared_ptr<NcclComms> comms, const nccl::UniqueId& id, int first,
            int all, std::chrono::milliseconds timeout);

  /// The reason for a failure, valid when the operation is done: empty if NCCL was started, otherwise such as "cannot
  /// start NCCL on rank 1: ...".
  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }

  void start(Transport& transport, Workspace& workspace) override;
  bool advance(Transport& transport, Workspace& workspace) override;
  std::vector<int> awaited_ranks() const override;
  bool abandon(Transport& transport) noexcept override;

 private:
  enum class Outcome : std::uint32_t { open, started, failed, aborted };
  struct Report {
    Outcome outcome = Outcome::open;
    std::array<char, 252> text{};
  };
  struct Incoming {
    int source;
    Transfer transfer;
    bool has_arrived = false;
  };

  void update_own() noexcept;
  void conclude_own(Outcome outcome, const std::string& text) noexcept;
  /// Reads the reports that have arrived.
  void read_reports(Transport& transport);
  void send(Transport& transport);
  [[nodiscard]] std::span<std::byte> report_of(int rank) const;
  void conclude(int ranks);

  std::shared_ptr<NcclComms> comms_;
  nccl::UniqueId id_;
  int first_;
  int all_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point deadline_;
  Report own_;
  std::string why_not_;
  Buffer reports_;  // by rank, including this rank
  std::vector<Incoming> incoming_;
  std::vector<Transfer> outgoing_;
  bool is_sent_ = false;
  int rank_ = 0;
};

}  // namespace lockstep::detail
