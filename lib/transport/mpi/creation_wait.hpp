// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The wait for other ranks while a communicator is made of a program's MPI communicator.

#pragma once

#include "bindings/mpi/mpi.hpp"
#include "cluster/job.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail {

struct CreationLimits {
  std::chrono::milliseconds warn_after{30'000};   ///< then the missing ranks are logged, once
  std::chrono::milliseconds fail_after{300'000};  ///< of the whole creation
  std::string name = "communicator";              ///< shown in errors
};

/// One creation over the ranks of an MPI communicator. A rank that waits for long says so to the others, by messages on
/// the communicator of the Job: the program's own communicator cannot carry them, since a receive of the program with
/// MPI_ANY_TAG would match them.
class CreationWait {
 public:
  /// Local.
  CreationWait(MPI_Comm comm, CreationLimits limits);

  /// This rank has begun an MPI_Comm_idup. Returns whether that is the call of this creation. If not, it belongs to an
  /// earlier one that failed before this rank made its call, or other ranks had failed in this creation before: then
  /// this object is for the next creation, and the caller makes another call. Local; does not wait.
  [[nodiscard]] bool count_duplicate();

  /// Calls `test` until it returns true. Throws Error(deadline_exceeded) when the deadline of the creation has passed;
  /// the text names `call`, the call of MPI that is not complete, and the missing ranks of `comm`, if there is a job.
  void until(const std::function<bool()>& test, const char* call);

 private:
  using Clock = std::chrono::steady_clock;

  void check_time(const char* call);
  void look_at_arrivals(const char* call);
  /// Tells the other members, once, that this rank is here.
  void send_arrival();
  /// Tells the other members that this creation has failed.
  void send_failure(const std::vector<int>& missing);
  /// Their ranks in the job.
  [[nodiscard]] std::vector<int> other_members() const;
  /// The ranks of which no arrival is known; empty if there is no job.
  [[nodiscard]] std::vector<int> missing_ranks() const;
  [[nodiscard]] std::string text_of(const std::vector<int>& missing) const;
  [[noreturn]] void fail(const std::string& text, int culprit) const;

  CreationLimits limits_;
  std::shared_ptr<Job> job_;  // null if some ranks are not in the job
  int own_rank_ = 0;          // in the job
  std::vector<int> members_;  // ranks of the job
  std::uint64_t key_ = 0;     // the same for all creations over these ranks
  std::uint64_t number_ = 0;  // among the creations of this key
  Clock::time_point since_ = Clock::now();
  bool has_sent_arrival_ = false;
  bool has_warned_ = false;
};

}  // namespace lockstep::detail
