// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The NCCL communicators of this rank, one for each GPU that the rank leads. No function blocks for long: NCCL's calls
// are non-blocking, and the calls that end a communicator run on a separate thread, which is abandoned after a timeout.

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
  /// `devices`: CUDA's numbers of the GPUs that this rank leads.
  NcclComms(std::shared_ptr<nccl::Api> api, std::vector<int> devices);
  NcclComms(const NcclComms&) = delete;
  NcclComms& operator=(const NcclComms&) = delete;
  /// Calls `finish`.
  ~NcclComms();

  /// Starts to create the communicators, as NCCL ranks `first`, `first` + 1, ... of `all`. Throws Error(unavailable).
  void start(const nccl::UniqueId& id, int first, int all);
  /// Whether NCCL has accepted all calls so far. Throws Error(unavailable) if a call has failed.
  [[nodiscard]] bool are_ready() const;
  /// Whether the communicators have been started and have not been ended.
  [[nodiscard]] bool are_there() const noexcept { return comms_ != nullptr; }

  /// The communicator of this rank's GPU number `local`.
  [[nodiscard]] nccl::Comm operator[](std::size_t local) const { return (*comms_)[local]; }
  [[nodiscard]] nccl::Api& api() const noexcept { return *api_; }
  /// If `result` is a failure, throws Error(unavailable) with NCCL's message and the name `call`.
  void check(nccl::Result result, std::string_view call) const;

  /// Aborts all communicators immediately, including their pending calls.
  void abort() noexcept;
  /// Destroys the communicators after their pending calls are complete, or aborts the communicators after a timeout.
  void finish() noexcept;

 private:
  [[nodiscard]] bool finalize();

  std::shared_ptr<nccl::Api> api_;
  std::vector<int> devices_;
  // Null before `start` and after the end of the communicators. Shared with the thread that ends the communicators,
  // because NCCL may write to the vector until they have ended.
  std::shared_ptr<std::vector<nccl::Comm>> comms_;
};

/// A group of NCCL calls for all GPUs of this rank, from the construction of this object to `end`. Used by one thread.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclComms& comms);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup();

  /// Checks the result of a call in the group, like NcclComms::check.
  void add(nccl::Result result, std::string_view call) const { comms_.check(result, call); }
  void end();

 private:
  const NcclComms& comms_;
  bool is_open_ = true;
};

}  // namespace lockstep::detail
