// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank that is stopped, for tests of several processes.

#pragma once

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace lockstep::test {

/// Stops the last rank of the job until the other ranks have ended their calls. Collective over MPI_COMM_WORLD.
class StoppedRank {
 public:
  StoppedRank() {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    is_last_ = rank == size - 1;
    process_ = static_cast<int>(::getpid());
    MPI_Bcast(&process_, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, is_last_ ? 1 : 0, rank, &others_);
  }
  StoppedRank(const StoppedRank&) = delete;
  StoppedRank& operator=(const StoppedRank&) = delete;
  ~StoppedRank() { MPI_Comm_free(&others_); }

  /// On the last rank: stops the process after `delay`. Without a delay, returns when the process goes on.
  void stop(std::chrono::milliseconds delay = {}) {
    if (delay.count() == 0) {
      ::kill(::getpid(), SIGSTOP);
      return;
    }
    stopper_ = std::jthread([delay] {
      std::this_thread::sleep_for(delay);
      ::kill(::getpid(), SIGSTOP);
    });
  }

  /// Each rank calls this when its call has ended. Continues the last rank when all others have called; returns when
  /// the last rank has called, too.
  void meet() {
    if (stopper_.joinable()) stopper_.join();
    if (!is_last_) MPI_Barrier(others_);
    MPI_Request all_here = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &all_here);
    for (int is_over = 0; is_over == 0; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      if (!is_last_) ::kill(process_, SIGCONT);  // again and again: it may not have stopped yet
      MPI_Test(&all_here, &is_over, MPI_STATUS_IGNORE);
    }
  }

 private:
  bool is_last_ = false;
  int process_ = 0;
  MPI_Comm others_ = MPI_COMM_NULL;  // all ranks but the last
  std::jthread stopper_;
};

}  // namespace lockstep::test
