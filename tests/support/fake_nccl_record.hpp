// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A test's settings of a fake NCCL, and its records for the test: shared by all its communicators.

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
  std::uint64_t seed = 1;  ///< seed of the order in which ranks are added; that of rank 0 is used
  int init_polls = 2;      ///< the least number of polls for which a new communicator is in progress
  int launch_polls = 0;    ///< the same after each launch, which begins then
  /// Bound on every wait in the fake; a wait that reaches it is logged.
  std::chrono::milliseconds timeout = std::chrono::seconds(120);
  std::string absent = {};  ///< why NCCL is unavailable; empty if it is available
};

/// Replaces the work of a launch. It runs until its communicator is aborted, unless the process ends.
struct FakeFault {
  enum class Kind : std::uint8_t { never_ends, fails, exits };
  Kind kind = Kind::never_ends;
  detail::nccl::Result result = detail::nccl::Result::success;  ///< the error that the communicator gets
  int exit_code = 0;
};

/// Thread-safe.
class FakeNcclRecord {
 public:
  void add_fault(int rank, int nth, FakeFault fault) {
    const std::scoped_lock lock(mutex_);
    faults_[{rank, launches_[rank] + nth}] = fault;
  }
  /// Counts a launch of `rank`; the replacement of its work, if any.
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

  /// Kept until the next error, as in NCCL.
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
  std::map<int, int> launches_;  // by rank; this and the rest guarded by mutex_
  std::map<std::pair<int, int>, FakeFault> faults_;
  std::map<int, int> versions_;
  std::vector<std::string> mismatches_;
  std::string last_error_;
};

}  // namespace lockstep::test
