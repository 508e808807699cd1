// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Pending transfers. One call tests all of them.

#pragma once

#include "transport/transport.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Each transfer has a number that the caller of `add` chooses, such as the rank at the other end. Transfers stay in
/// the order of `add`. Called under the engine's lock.
class OpenTransfers {
 public:
  /// Adds the transfer that `start` returns. If there is no memory, throws std::bad_alloc before the transfer starts,
  /// so that no transfer is under way that no list has.
  template <class Start>
  void add(int number, const Start& start) {
    make_room(transfers_);
    make_room(numbers_);
    transfers_.push_back(start());
    numbers_.push_back(number);
  }
  /// Tests all transfers, and removes those that are complete. Returns the numbers of the removed transfers, valid
  /// until the next call. Throws as Transport::test, after it has removed the transfers that were found complete.
  std::span<const int> test(Transport& transport);
  [[nodiscard]] bool is_empty() const noexcept { return transfers_.empty(); }
  [[nodiscard]] std::span<const int> numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::span<const Transfer> transfers() const noexcept { return transfers_; }
  /// Removes all transfers and returns them.
  [[nodiscard]] std::vector<Transfer> take() noexcept {
    numbers_.clear();
    return std::exchange(transfers_, {});
  }

 private:
  template <class T>
  static void make_room(std::vector<T>& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 4);
  }
  void forget_complete() noexcept;

  std::vector<Transfer> transfers_;
  std::vector<int> numbers_;           // by index in transfers_
  std::vector<std::size_t> complete_;  // indices in transfers_ of those that the last test found complete
  std::vector<int> done_;              // numbers of the transfers that the last test found complete
};

}  // namespace lockstep::detail
