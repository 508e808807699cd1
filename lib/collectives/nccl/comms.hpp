// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// This rank's NCCL communicators, one for each GPU that it leads. No call blocks for long: NCCL's calls are
// non-blocking, and those that end a communicator run on a thread that can be abandoned.

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
  /// Calls `finish`.
  ~NcclComms();

  /// Starts to create the communicators, as ranks `first`, `first` + 1, ... of `all`. Throws Error(unavailable).
  void start(const nccl::UniqueId& id, int first, int all);
  /// Whether NCCL has accepted all calls so far. Throws Error(unavailable) if one has failed.
  [[nodiscard]] bool are_ready() const;
  /// Whether the communicators were started and not ended.
  [[nodiscard]] bool are_there() const noexcept { return comms_ != nullptr; }

  /// The communicator of this rank's GPU number `local`.
  [[nodiscard]] nccl::Comm operator[](std::size_t local) const { return (*comms_)[local]; }
  [[nodiscard]] nccl::Api& api() const noexcept { return *api_; }
  /// Throws Error(unavailable) with NCCL's message and the call's name if `result` is a failure.
  void check(nccl::Result result, std::string_view call) const;

  /// Aborts all communicators at once, with their pending calls.
  void abort() noexcept;
  /// Ends the communicators after their pending calls; if that takes too long, aborts them.
  void finish() noexcept;

 private:
  [[nodiscard]] bool finalize();

  std::shared_ptr<nccl::Api> api_;
  std::vector<int> devices_;
  // Null: not started, or ended. Shared with the thread that ends them: NCCL writes into it until it is done.
  std::shared_ptr<std::vector<nccl::Comm>> comms_;
};

/// A group of NCCL calls, those of all GPUs of this rank, which ends with `end`. For one thread.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclComms& comms);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup();

  /// Checks the result of a call in the group. Throws as NcclComms::check.
  void add(nccl::Result result, std::string_view call) const { comms_.check(result, call); }
  void end();

 private:
  const NcclComms& comms_;
  bool is_open_ = true;
};

}  // namespace lockstep::detail
