// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes the operations of one communicator to the hash log of this process.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/item.hpp>

#include "cluster/hash_log.hpp"
#include "collectives/call/call.hpp"
#include "collectives/engine/operation.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep::detail {

/// Thread-safe.
class HashRecorder {
 public:
  HashRecorder(std::shared_ptr<HashLog> log, const std::string& name, const ReplicaLayout& layout,
               const Transport& transport);

  /// Hashes the inputs of `items`, and makes the end of the next run of `operation` write the hashes of inputs and
  /// outputs. Called when `operation` is acquired, but not posted yet, so that no other rank writes to the tensors.
  void attach(Operation& operation, const Call& call, std::span<const Item> items) const noexcept;

 private:
  class End;

  const std::shared_ptr<HashLog> log_;
  const std::uint64_t group_;
};

}  // namespace lockstep::detail
