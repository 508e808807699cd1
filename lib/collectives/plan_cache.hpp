// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations that were made before, by what was asked for: a program that makes the same calls again and again pays for
// checks, tables and schedules once.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "collectives/call/call.hpp"
#include "collectives/engine/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::detail {

/// All that a call says.
struct CallKey {
  OperationKind kind;
  ReduceOp op;
  int root;
  int order;  ///< -1: the communicator's
  std::string_view name;
  std::span<const Item> items;
};

/// Not thread-safe.
class PlanCache {
 public:
  /// The operation that was made for the same call on the same buffers, null if none.
  [[nodiscard]] std::shared_ptr<Operation> find(const CallKey& key);
  /// Remembers `operation`; what was used longest ago is forgotten.
  void add(const CallKey& key, std::shared_ptr<Operation> operation);
  void forget(const CallKey& key);

 private:
  static constexpr std::size_t most_entries = 1024;

  struct Entry {
    std::uint64_t hash;
    OperationKind kind;
    ReduceOp op;
    int root;
    int order;
    std::string name;
    std::vector<std::uint64_t> words;  // the views
    std::shared_ptr<Operation> operation;
  };

  [[nodiscard]] static bool matches(const Entry& entry, const CallKey& key);
  [[nodiscard]] std::list<Entry>::iterator locate(const CallKey& key, std::uint64_t hash);

  std::list<Entry> entries_;  // the one used last in front
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> by_hash_;
};

}  // namespace lockstep::detail
