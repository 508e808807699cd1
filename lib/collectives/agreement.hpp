// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Do all ranks call the same operation? Found out before any data moves, by dissemination of summaries.

#pragma once

#include "collectives/control_channel.hpp"
#include "collectives/control_message.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

/// The agreement on one operation. After the last round every rank holds the same summary, so all draw the same
/// conclusion.
class Agreement {
 public:
  Agreement(ControlChannel& control, int rank, int size) : control_(control), rank_(rank), size_(size) {}

  [[nodiscard]] bool is_open() const noexcept { return open_; }
  void open(std::uint64_t epoch, std::int64_t sequence, const Descriptor& descriptor);
  void close() noexcept { open_ = false; }
  /// Moves on without waiting; whether all rounds are through.
  [[nodiscard]] bool advance();
  /// After the last round: what all ranks know now.
  [[nodiscard]] const Summary& summary() const noexcept { return summary_; }

 private:
  void tell();

  ControlChannel& control_;
  int rank_;
  int size_;
  bool open_ = false;
  std::uint64_t epoch_ = 0;
  std::int64_t sequence_ = 0;
  int round_ = 0;
  Summary summary_;
};

}  // namespace lockstep::detail
