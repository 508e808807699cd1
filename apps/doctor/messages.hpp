// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between ranks with a deadline for each wait, by MPI alone, so that they show what MPI does.

#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>

namespace doctor {

using Clock = std::chrono::steady_clock;

/// Texts and bytes over MPI_COMM_WORLD, with tags of this class. For one thread. A message that no rank receives before
/// MPI_Finalize is bounded by the deadline of the whole program.
class Messages {
 public:
  Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Returns at once; the text is kept until the end.
  void send(int rank, std::string text);
  /// The next text from `rank`, or nullopt after the deadline. Sleeps between looks, so that waiting ranks disturb no
  /// measurement.
  [[nodiscard]] std::optional<std::string> receive(int rank, Clock::time_point deadline);

  /// Sends `bytes` to `rank`, or receives them; false after the deadline. Looks all the time.
  [[nodiscard]] static bool send_bytes(int rank, std::span<std::byte> bytes, Clock::time_point deadline);
  [[nodiscard]] static bool receive_bytes(int rank, std::span<std::byte> bytes, Clock::time_point deadline);

 private:
  struct Sent {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::deque<Sent> sent_;
  std::deque<std::string> received_;  // MPI may still write to those that did not complete
};

}  // namespace doctor
