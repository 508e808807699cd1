// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of one communicator on all its ranks, side by side.

#pragma once

#include "explain/records.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace explain {

/// Epoch and sequence.
using Position = std::pair<std::uint64_t, std::int64_t>;

/// One rank of a communicator.
struct Member {
  int rank = 0;                    ///< in the communicator
  const Record* record = nullptr;  ///< null: no file
  const Communicator* communicator = nullptr;
  std::map<Position, const Operation*> operations;  ///< collectives
  Position first;                                   ///< earlier operations are not in the file

  [[nodiscard]] const Operation* at(Position position) const {
    const auto found = operations.find(position);
    return found == operations.end() ? nullptr : found->second;
  }
  [[nodiscard]] const Operation* last() const { return operations.empty() ? nullptr : operations.rbegin()->second; }
};

/// A communicator of more than one rank.
struct History {
  std::string name;
  std::vector<int> job_ranks;   ///< by rank; empty: the ranks are threads of one process
  std::vector<Member> members;  ///< by rank
};

/// The communicators of the records, in the order of their creation.
[[nodiscard]] std::vector<History> merge(const std::vector<Record>& records);

enum class Trouble : std::uint8_t {
  none,
  different_calls,
  missing_rank,  ///< some ranks wait in an operation that others have not called
  not_finished,  ///< all ranks have called; the data has not moved, or the operation failed
};

/// The first operation at which the ranks are not alike, after all that they completed; or, if they completed later
/// ones, the last one at which they were not.
struct Finding {
  Trouble trouble = Trouble::none;
  Position position;
  bool has_recovered = false;  ///< later operations were completed
};
[[nodiscard]] Finding find_trouble(const History& history);

}  // namespace explain
