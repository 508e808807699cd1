// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL is started by all ranks or by none.

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

/// Starts NCCL on this rank and tells the others how that went, P-1 small messages per rank: where it fails on one the
/// others give up at once, since they would wait for it. When it is done every rank knows the same.
class NcclStart final : public Operation {
 public:
  /// `comms` are the numbers `first`, ... of `all`; null on a rank that has none, which only hears how it went. A start
  /// that takes longer than `patience` has failed.
  NcclStart(const Descriptor& descriptor, std::shared_ptr<NcclComms> comms, const nccl::UniqueId& id, int first,
            int all, std::chrono::milliseconds patience);

  /// When it is done: empty, or "NCCL does not start on rank 1: ...".
  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }

  void start(Transport& transport, Workspace& workspace) override;
  bool advance(Transport& transport, Workspace& workspace) override;
  std::vector<int> awaited_ranks() const override;
  bool abandon(Transport& transport) noexcept override;

 private:
  enum class Outcome : std::uint32_t { open, started, failed, given_up };
  struct Letter {
    Outcome outcome = Outcome::open;
    std::array<char, 252> text{};
  };
  struct Incoming {
    int source;
    Transfer transfer;
    bool is_here = false;
  };

  void look_at_own() noexcept;
  void conclude_own(Outcome outcome, const std::string& text) noexcept;
  /// Takes in what has come.
  void read_mail(Transport& transport);
  void send(Transport& transport);
  [[nodiscard]] std::span<std::byte> letter_of(int rank) const;
  void conclude(int ranks);

  std::shared_ptr<NcclComms> comms_;
  nccl::UniqueId id_;
  int first_;
  int all_;
  std::chrono::milliseconds patience_;
  std::chrono::steady_clock::time_point until_;
  Letter own_;
  std::string why_not_;
  Buffer letters_;  // by rank, this one's too
  std::vector<Incoming> incoming_;
  std::vector<Transfer> outgoing_;
  bool is_sent_ = false;
  int rank_ = 0;
};

}  // namespace lockstep::detail
