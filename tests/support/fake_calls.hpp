// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the calls of each function of a table, and makes chosen calls fail.

#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

/// Functions have their names in the table: "malloc_async". Thread-safe.
template <class Status>
class FakeCalls {
 public:
  /// The `nth` call of `name` from now on, 1 being the next, does nothing and returns `status`.
  void fail(const std::string& name, int nth, Status status) {
    const std::scoped_lock lock(mutex_);
    Entry& entry = entries_[name];
    entry.failures.push_back({entry.count + nth, status});
  }

  [[nodiscard]] int count(const std::string& name) const {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(name);
    return found == entries_.end() ? 0 : found->second.count;
  }

  /// The numbers of calls by name.
  [[nodiscard]] std::map<std::string, int> counts() const {
    const std::scoped_lock lock(mutex_);
    std::map<std::string, int> result;
    for (const auto& [name, entry] : entries_) result[name] = entry.count;
    return result;
  }

  /// Counts a call. The status that it must return if it is to fail.
  [[nodiscard]] std::optional<Status> enter(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    auto found = entries_.find(name);
    if (found == entries_.end()) found = entries_.emplace(name, Entry{}).first;
    Entry& entry = found->second;
    ++entry.count;
    for (const Failure& failure : entry.failures) {
      if (failure.call == entry.count) return failure.status;
    }
    return std::nullopt;
  }

 private:
  struct Failure {
    int call;  // counted from the first
    Status status;
  };
  struct Entry {
    int count = 0;
    std::vector<Failure> failures;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_
};

}  // namespace lockstep::test
