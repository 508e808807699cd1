// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Flight records that are made for a test.

#pragma once

#include "explain/records.hpp"

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace explain {

/// "reduce@a.cpp:1" -> a completed call from that line; a suffix "!" stands for one that failed, "?" for one that
/// waits.
inline Operation made_operation(std::string text, std::int64_t sequence, std::uint64_t epoch = 0) {
  Operation operation;
  operation.state = text.back() == '!' ? "failed" : text.back() == '?' ? "posted" : "completed";
  if (!operation.is_completed()) text.pop_back();
  const auto at = text.find('@');
  operation.call = operation.kind = text.substr(0, at);
  operation.place = at == std::string::npos ? "" : text.substr(at + 1);
  operation.epoch = epoch;
  operation.sequence = sequence;
  operation.posted = 1'000'000 * (sequence + 1);
  return operation;
}

/// The record of `rank`, of a job of `size` ranks with the communicator "world".
inline Record made_record(int rank, int size, const std::vector<std::string>& calls) {
  Communicator world;
  world.name = "world";
  world.number = 1;
  world.rank = rank;
  world.size = size;
  world.job_ranks.resize(static_cast<std::size_t>(size));
  std::iota(world.job_ranks.begin(), world.job_ranks.end(), 0);
  world.posted = calls.size();
  for (const std::string& call : calls)
    world.operations.push_back(made_operation(call, static_cast<std::int64_t>(world.operations.size())));
  Record record;
  record.path = "rank" + std::to_string(rank) + ".json";
  record.job = "7";
  record.rank = rank;
  record.size = size;
  record.reason = "SIGQUIT";
  record.written = 100'000'000;
  record.communicators.push_back(std::move(world));
  return record;
}

}  // namespace explain
