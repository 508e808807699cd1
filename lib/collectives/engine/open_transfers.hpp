// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transfers that are not complete yet, tested all at once.

#pragma once

#include "transport/transport.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Each transfer has a number that its owner chooses, such as the rank at the other end. In the order of `add`. Driven
/// under the engine's lock.
class OpenTransfers {
 public:
  void add(Transfer transfer, int number) {
    transfers_.push_back(transfer);
    numbers_.push_back(number);
  }
  /// Forgets the transfers that are complete. Returns their numbers, which are valid until the next call. Throws as
  /// Transport::test; then, too, no transfer is left whose number in the transport is free.
  std::span<const int> test(Transport& transport);
  [[nodiscard]] bool is_empty() const noexcept { return transfers_.empty(); }
  [[nodiscard]] std::span<const int> numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::span<const Transfer> transfers() const noexcept { return transfers_; }
  /// Forgets them all.
  [[nodiscard]] std::vector<Transfer> take() noexcept {
    numbers_.clear();
    return std::exchange(transfers_, {});
  }

 private:
  void forget_complete() noexcept;

  std::vector<Transfer> transfers_;
  std::vector<int> numbers_;           // of transfers_
  std::vector<std::size_t> complete_;  // indices in transfers_, found by the last test
  std::vector<int> done_;              // their numbers
};

}  // namespace lockstep::detail
