// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The wait for other ranks while lockstep makes a communicator from an MPI communicator of the program.

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
  std::chrono::milliseconds warn_after{30'000};   ///< time until the missing ranks are logged, once
  std::chrono::milliseconds fail_after{300'000};  ///< time until the whole creation fails
  std::string name = "communicator";              ///< shown in errors
};

/// One creation over the ranks of an MPI communicator. A rank that waits for a long time informs the other ranks, by
/// messages on the communicator of the Job. The program's own communicator cannot carry these messages, since a receive
/// of the program with MPI_ANY_TAG would match them.
class CreationWait {
 public:
  /// Local.
  CreationWait(MPI_Comm comm, CreationLimits limits);

  /// Called when this rank has begun an MPI_Comm_idup. Returns whether this MPI_Comm_idup belongs to this creation. If
  /// it returns false, the caller must begin another MPI_Comm_idup. There are two such cases. First, the call belongs
  /// to an earlier creation that failed before this rank made its call. Second, other ranks have already failed in this
  /// creation; this object then stands for the next creation. Local; does not wait.
  [[nodiscard]] bool count_duplicate();

  /// Calls `test` until it returns true. Throws Error(deadline_exceeded) if the deadline of the creation passes, or if
  /// a message says that another rank has timed out. The text names `call`, which is the MPI call that is not complete,
  /// and, if there is a job, the missing ranks of `comm`.
  void until(const std::function<bool()>& test, const char* call);

 private:
  using Clock = std::chrono::steady_clock;

  void check_time(const char* call);
  void look_at_arrivals(const char* call);
  /// Sends a message to the other members, once: this rank has arrived.
  void send_arrival();
  /// Sends a message to the other members: this creation has failed.
  void send_failure(const std::vector<int>& missing);
  /// Ranks of the other members in the job.
  [[nodiscard]] std::vector<int> other_members() const;
  /// The ranks of `comm` from which no arrival is known; empty if there is no job.
  [[nodiscard]] std::vector<int> missing_ranks() const;
  [[nodiscard]] std::string text_of(const std::vector<int>& missing) const;
  [[noreturn]] void fail(const std::string& text, int culprit) const;

  CreationLimits limits_;
  std::shared_ptr<Job> job_;  // null if there is no job, or if some ranks are not in the job
  int own_rank_ = 0;          // rank in the job
  std::vector<int> members_;  // ranks of the members in the job
  std::uint64_t key_ = 0;     // hash of the members: the same for all creations over these ranks
  std::uint64_t number_ = 0;  // number of this creation among those with the same key
  Clock::time_point since_ = Clock::now();
  bool has_sent_arrival_ = false;
  bool has_warned_ = false;
};

}  // namespace lockstep::detail
