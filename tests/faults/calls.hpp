// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of a job, through one of the two interfaces. Every call checks its result.

#pragma once

#include "events.hpp"
#include "settings.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace faults {

enum class Kind : std::uint8_t { sum, broadcast, gather };

/// How the culprit's call differs from those of the others.
enum class Change : std::uint8_t { none, count, dtype, op, root, kind, list, name, replicas, options };

/// The change that an event makes to a call; none for an event that happens to the process.
[[nodiscard]] Change change_of(const std::string& event);

/// The kind of the call that the event changes: the one that has what the event changes.
[[nodiscard]] Kind first_kind(const Settings& settings);

/// A result that is not what the ranks have sent.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The calls by which events at one moment are made. `strike` happens between calls, and says whether the rank leaves.
using Strike = std::function<Then()>;

/// The two calls at the moment of the event. Without an event every rank makes the calls first(none), second().
struct Pair {
  std::function<void(Change)> first;
  std::function<void()> second;
};
/// Makes the calls of the pair in the way of `event`: skips the first, makes one more before it, swaps both, or makes
/// the first with the event's change.
void make_pair(const Settings& settings, const Pair& pair, const std::function<void()>& one_more);

class Calls {
 public:
  virtual ~Calls() = default;

  /// Call number `k` of the loop; the elements depend on it.
  virtual void call(Kind kind, int k, Change change) = 0;
  /// What ranks call after an error: brings all of them to the same operation.
  virtual void recover() = 0;
  /// A sum of many bytes.
  virtual void large(int k, Change change) = 0;
  /// A sum of many bytes, with the strike while it is in flight.
  virtual Then large_with(int k, const Strike& strike) = 0;
  /// Operations in flight, with the strike between two posts.
  virtual Then in_flight(const Strike& strike) = 0;

  // The moments of a strategy. These return `leave` at the strike, too.
  virtual void in_merge(const Strike&) { throw std::logic_error("no merge_call"); }
  virtual void in_dataset(const Strike&) { throw std::logic_error("no dataset"); }
  virtual Then in_checkpoint(Events&) { throw std::logic_error("no checkpoint"); }
};

[[nodiscard]] std::unique_ptr<Calls> make_communicator_calls(const Settings& settings, Change change);
[[nodiscard]] std::unique_ptr<Calls> make_strategy_calls(const Settings& settings, Change change);

}  // namespace faults
