// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/open_transfers.hpp"

namespace lockstep::detail {

std::span<const int> OpenTransfers::test(Transport& transport) {
  complete_.clear();
  done_.clear();
  if (is_empty()) return done_;
  complete_.reserve(transfers_.size());
  done_.reserve(transfers_.size());
  try {
    transport.test_some(transfers_, complete_);
  } catch (...) {
    forget_complete();
    throw;
  }
  forget_complete();
  return done_;
}

void OpenTransfers::forget_complete() noexcept {
  if (complete_.empty()) return;
  auto next = complete_.begin();
  std::size_t kept = complete_.front();
  for (std::size_t i = kept; i < transfers_.size(); ++i) {
    if (next != complete_.end() && *next == i) {
      done_.push_back(numbers_[i]);
      ++next;
      continue;
    }
    transfers_[kept] = transfers_[i];
    numbers_[kept++] = numbers_[i];
  }
  transfers_.resize(kept);
  numbers_.resize(kept);
}

}  // namespace lockstep::detail
