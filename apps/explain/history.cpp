// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "explain/history.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace explain {
namespace {

/// Equal for the ranks of one communicator. Communicators between threads have the ranks of one file.
using Key = std::tuple<std::uint64_t, std::vector<int>, std::string>;

Key key_of(const Record& record, const Communicator& communicator) {
  return {communicator.number, communicator.job_ranks, communicator.job_ranks.empty() ? record.path : ""};
}

void add_member(History& history, const Record& record, const Communicator& communicator) {
  Member& member = history.members[static_cast<std::size_t>(communicator.rank)];
  member.record = &record;
  member.communicator = &communicator;
  for (const Operation& operation : communicator.operations) {
    if (operation.is_collective()) member.operations[{operation.epoch, operation.sequence}] = &operation;
  }
  const bool has_all = communicator.posted <= communicator.operations.size();
  if (!has_all && !member.operations.empty()) member.first = member.operations.begin()->first;
}

Trouble trouble_at(const History& history, Position position) {
  std::set<std::string> calls;
  bool is_absent = false;
  bool is_unfinished = false;
  bool is_agreed = false;
  for (const Member& member : history.members) {
    const Operation* const operation = member.at(position);
    if (operation == nullptr) {
      // what a file does not reach back to was completed
      is_absent = is_absent || member.record == nullptr || position >= member.first;
      continue;
    }
    calls.insert(operation->call);
    is_unfinished = is_unfinished || !operation->is_completed();
    is_agreed = is_agreed || operation->state == "agreed" || operation->is_completed();
  }
  if (!is_unfinished) return Trouble::none;
  if (calls.size() > 1) return Trouble::different_calls;
  // all ranks came if one knows that they agree
  return is_absent && !is_agreed ? Trouble::missing_rank : Trouble::not_finished;
}

/// The position that all ranks with files have reached: each has completed it or a later one.
std::optional<Position> completed_by_all(const History& history) {
  std::optional<Position> lowest;
  for (const Member& member : history.members) {
    if (member.record == nullptr) continue;
    std::optional<Position> own;
    for (const auto& [position, operation] : member.operations) {
      if (operation->is_completed()) own = position;
    }
    if (!own) return std::nullopt;
    if (!lowest || *own < *lowest) lowest = own;
  }
  return lowest;
}

}  // namespace

std::vector<History> merge(const std::vector<Record>& records) {
  std::vector<History> histories;
  std::map<Key, std::size_t> places;
  for (const Record& record : records) {
    for (const Communicator& communicator : record.communicators) {
      if (communicator.size == 1) continue;
      const auto [place, is_new] = places.insert({key_of(record, communicator), histories.size()});
      if (is_new) {
        History history{communicator.name, communicator.job_ranks, {}};
        history.members.resize(static_cast<std::size_t>(communicator.size));
        for (int rank = 0; rank < communicator.size; ++rank)
          history.members[static_cast<std::size_t>(rank)].rank = rank;
        histories.push_back(std::move(history));
      }
      add_member(histories[place->second], record, communicator);
    }
  }
  return histories;
}

Finding find_trouble(const History& history) {
  std::set<Position> positions;
  for (const Member& member : history.members) {
    for (const auto& [position, operation] : member.operations) positions.insert(position);
  }
  const std::optional<Position> completed = completed_by_all(history);
  Finding last;
  for (const Position& position : positions) {
    const Trouble trouble = trouble_at(history, position);
    if (trouble == Trouble::none) continue;
    const bool is_past = completed && position <= *completed;
    last = {trouble, position, is_past};
    if (!is_past) break;
  }
  return last;
}

}  // namespace explain
