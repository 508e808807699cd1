// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a test asks of a fake NCCL, and what it is told: shared by all communicators of one.

#pragma once

#include "bindings/nccl/nccl.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

struct FakeNcclOptions {
  int version = 22809;
  std::uint64_t seed = 1;  ///< of the order in which ranks are added; rank 0's counts
  int init_polls = 2;      ///< how often a new communicator is in progress, at least
  int launch_polls = 0;    ///< how often it is after each launch, which begins then
  /// The longest that anything in here waits; then it says so in the log.
  std::chrono::milliseconds patience = std::chrono::seconds(120);
  std::string absent = {};  ///< why there is no NCCL; empty: there is
};

/// What becomes of a launch instead of its work. It runs until its communicator is aborted, unless the process ends.
struct FakeFault {
  enum class Kind : std::uint8_t { never_ends, fails, exits };
  Kind kind = Kind::never_ends;
  detail::nccl::Result result = detail::nccl::Result::success;  ///< what the communicator's error becomes
  int exit_code = 0;
};

/// Thread-safe.
class FakeNcclRecord {
 public:
  void add_fault(int rank, int nth, FakeFault fault) {
    const std::scoped_lock lock(mutex_);
    faults_[{rank, launches_[rank] + nth}] = fault;
  }
  /// Counts a launch of `rank`; what becomes of it.
  [[nodiscard]] std::optional<FakeFault> next_launch(int rank) {
    const std::scoped_lock lock(mutex_);
    const auto found = faults_.find({rank, ++launches_[rank]});
    return found == faults_.end() ? std::nullopt : std::optional(found->second);
  }

  void pretend_version(int rank, int version) {
    const std::scoped_lock lock(mutex_);
    versions_[rank] = version;
  }
  [[nodiscard]] int version_of(int rank, int otherwise) const {
    const std::scoped_lock lock(mutex_);
    const auto found = versions_.find(rank);
    return found == versions_.end() ? otherwise : found->second;
  }

  void add_mismatch(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    mismatches_.push_back(text);
  }
  [[nodiscard]] std::vector<std::string> mismatches() const {
    const std::scoped_lock lock(mutex_);
    return mismatches_;
  }

  /// Never forgotten before the next one, as NCCL's.
  void set_last_error(std::string text) {
    const std::scoped_lock lock(mutex_);
    last_error_ = std::move(text);
  }
  [[nodiscard]] std::string last_error() const {
    const std::scoped_lock lock(mutex_);
    return last_error_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, int> launches_;  // by rank; all guarded by mutex_
  std::map<std::pair<int, int>, FakeFault> faults_;
  std::map<int, int> versions_;
  std::vector<std::string> mismatches_;
  std::string last_error_;
};

}  // namespace lockstep::test
