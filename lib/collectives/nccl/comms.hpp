// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// This rank's communicators of NCCL, one for each of its GPUs. None of the calls blocks for long: NCCL's own are
// non-blocking, and those that end a communicator run on a thread that can be left behind.

#pragma once

#include "bindings/nccl/nccl.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe.
class NcclComms {
 public:
  /// `devices`: CUDA's numbers of this rank's GPUs.
  NcclComms(std::shared_ptr<nccl::Api> api, std::vector<int> devices);
  NcclComms(const NcclComms&) = delete;
  NcclComms& operator=(const NcclComms&) = delete;
  /// As `finish`.
  ~NcclComms();

  /// Begins to make them, as numbers `first`, `first` + 1, ... of `all`. Throws Error(unavailable).
  void start(const nccl::UniqueId& id, int first, int all);
  /// Whether NCCL has taken in all that it was given. Throws Error(unavailable) when something has failed.
  [[nodiscard]] bool are_ready() const;
  /// Whether they were started and not ended.
  [[nodiscard]] bool are_there() const noexcept { return comms_ != nullptr; }

  /// That of the rank's GPU number `local`.
  [[nodiscard]] nccl::Comm operator[](std::size_t local) const { return (*comms_)[local]; }
  [[nodiscard]] nccl::Api& api() const noexcept { return *api_; }
  /// Throws Error(unavailable) with NCCL's own words and the call's name when `result` is a failure.
  void check(nccl::Result result, std::string_view call) const;

  /// Ends them all at once, whatever they are doing.
  void abort() noexcept;
  /// Ends them when they have done what they were given; bounded, then as `abort`.
  void finish() noexcept;

 private:
  [[nodiscard]] bool finalize();

  std::shared_ptr<nccl::Api> api_;
  std::vector<int> devices_;
  // null: not started, or ended. Shared, since NCCL writes into it until it has started or ended.
  std::shared_ptr<std::vector<nccl::Comm>> comms_;
};

/// Calls of NCCL that go together, those of all GPUs of this rank, until `end`. For one thread.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclComms& comms);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup();

  /// Takes what a call in the group gave. Throws as NcclComms::check.
  void add(nccl::Result result, std::string_view call) const { comms_.check(result, call); }
  void end();

 private:
  const NcclComms& comms_;
  bool is_open_ = true;
};

}  // namespace lockstep::detail
