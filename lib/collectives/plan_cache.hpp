// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of earlier calls, indexed by call and buffers. If a program repeats a call, checks, tables and
// schedules are made only once.

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

/// The arguments that identify a call.
struct CallKey {
  OperationKind kind;
  ReduceOp op;
  int root;
  int order;  ///< order of the call; -1: the communicator's default
  std::string_view name;
  bool only_name;        ///< see ReduceOptions
  std::uintptr_t place;  ///< Operation::place_of the line of the call
  std::span<const Item> items;
};

/// A program that repeats a sequence of calls finds each of them without a hash. Not thread-safe.
class PlanCache {
 public:
  /// The operation of an earlier equal call on the same buffers; null if there is none.
  [[nodiscard]] std::shared_ptr<Operation> find(const CallKey& key);
  /// Adds `operation`; removes the least recently used entry if the cache is full.
  void add(const CallKey& key, std::shared_ptr<Operation> operation);

 private:
  static constexpr std::size_t most_entries = 1024;
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  struct Entry {
    std::uint64_t hash;
    OperationKind kind;
    ReduceOp op;
    int root;
    int order;
    std::string name;
    bool only_name;
    std::uintptr_t place;
    std::vector<std::uint64_t> words;  // encoding of the items
    std::shared_ptr<Operation> operation;
    std::list<Entry>::iterator next;  // the entry that was found after this one
    std::uint64_t next_since;         // `removals_` when `next` was set; none: it was not set
  };

  [[nodiscard]] static bool matches(const Entry& entry, const CallKey& key);
  [[nodiscard]] std::list<Entry>::iterator locate(const CallKey& key, std::uint64_t hash);

  std::list<Entry> entries_;    // most recently used first
  std::uint64_t removals_ = 0;  // number of entries that were removed: older values of `next` may refer to them
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> by_hash_;
};

}  // namespace lockstep::detail
