// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/finalize.hpp"

#include "base/log.hpp"
#include "base/phrases.hpp"
#include "cluster/end_of_job.hpp"
#include "cluster/job.hpp"

#include <lockstep/base/exit_code.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;

using Watches = std::span<const std::shared_ptr<const ProcessWatch>>;

constexpr std::chrono::milliseconds answer_time{200};
/// Even a busy machine lets the rank that speaks write its message within this time.
constexpr std::chrono::seconds time_to_speak{5};

/// A barrier of all ranks of the job. A rank that has waited for some time sends a heartbeat to all other ranks. A rank
/// that receives a heartbeat sends its own heartbeat to all other ranks. Thus every rank knows the missing ranks.
class LastBarrier {
 public:
  LastBarrier(MPI_Comm comm, Watches watches) : comm_(comm), watches_(watches) {
    int size = 0;
    mpi::check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    mpi::check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    is_here_.resize(static_cast<std::size_t>(size));
    is_here_[static_cast<std::size_t>(rank_)] = true;
    mpi::check(MPI_Ibarrier(comm, &barrier_), "MPI_Ibarrier");
  }

  /// Whether all ranks have entered the barrier.
  [[nodiscard]] bool test() {
    int is_done = 0;
    mpi::check(MPI_Test(&barrier_, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  }
  /// Receives the messages of the other ranks, and answers the first heartbeat.
  void take_messages() {
    take(absence_tag);
    if (take(heartbeat_tag)) send_heartbeats();
  }
  void send_heartbeats() {
    if (!std::exchange(has_sent_, true)) send_to_all(heartbeat_tag);
  }
  void send_absence() {
    if (!std::exchange(has_sent_absence_, true)) send_to_all(absence_tag);
  }
  /// Texts such as "rank 1 has died": one for each missing rank whose process has ended.
  [[nodiscard]] std::vector<std::string> ended() const {
    std::vector<std::string> texts;
    for (int rank = 0; rank < size(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (is_here_[at] || at >= watches_.size() || watches_[at] == nullptr || !watches_[at]->has_ended()) continue;
      texts.push_back(fmt::format("rank {} {}", rank, watches_[at]->end_text()));
    }
    return texts;
  }
  [[nodiscard]] std::string missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (!is_here_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
    }
    if (ranks.empty()) return "the end of MPI_Ibarrier";
    return ranks_phrase(ranks);
  }
  /// Whether this rank logs for all ranks: it is the lowest rank that is not missing.
  [[nodiscard]] bool speaks() const {
    return std::find(is_here_.begin(), is_here_.end(), true) - is_here_.begin() == rank_;
  }

 private:
  static constexpr int heartbeat_tag = 1;
  [[nodiscard]] int size() const noexcept { return static_cast<int>(is_here_.size()); }

  /// Receives all messages with this tag. Returns whether there was a message.
  bool take(int tag) {
    for (bool has_taken = false;; has_taken = true) {
      int has_come = 0;
      MPI_Status status;
      mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &has_come, &status), "MPI_Iprobe");
      if (has_come == 0) return has_taken;
      mpi::check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
      is_here_[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    }
  }
  void send_to_all(int tag) {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      if (MPI_Isend(nullptr, 0, MPI_BYTE, rank, tag, comm_, &request) == MPI_SUCCESS) MPI_Request_free(&request);
    }
  }

  MPI_Comm comm_;
  int rank_ = 0;
  MPI_Request barrier_ = MPI_REQUEST_NULL;
  bool has_sent_ = false;
  bool has_sent_absence_ = false;
  std::vector<bool> is_here_;  // by rank
  Watches watches_;
};

/// The rank that speaks writes the message and aborts the job while the others wait here. If it cannot, each of them
/// does.
[[noreturn]] void give_up(const LastBarrier& barrier, const std::string& why) {
  if (!barrier.speaks()) std::this_thread::sleep_for(time_to_speak);
  log_warning("Environment: {}; aborting the job with exit code {}, because MPI_Finalize would wait for ever", why,
              exit_code::unavailable);
  abort_job(exit_code::unavailable);
}

void await_all(LastBarrier& barrier, const FinalizeOptions& options) {
  const Clock::time_point start = Clock::now();
  const auto heartbeat_after = std::min<Clock::duration>(options.warn_after, options.fail_after / 2);
  Clock::time_point next_look = start + std::chrono::milliseconds(100);
  std::vector<std::string> ended;
  bool has_warned = false;
  while (!barrier.test()) {
    barrier.take_messages();
    const Clock::time_point now = Clock::now();
    if (options.is_absent && now - start > std::chrono::milliseconds(100)) barrier.send_absence();
    if (now - start > heartbeat_after) barrier.send_heartbeats();
    if (now - start > options.fail_after)
      give_up(barrier,
              fmt::format("timed out after {} s waiting for {}", seconds(options.fail_after), barrier.missing()));
    if (!has_warned && now - start > options.warn_after + answer_time) {
      has_warned = true;
      if (barrier.speaks())
        log_warning("Environment: this rank has waited {:.1f} s before MPI_Finalize for {}", seconds(now - start),
                    barrier.missing());
    }
    if (now > next_look) {
      next_look = now + std::chrono::milliseconds(100);
      // the end must be seen twice, because the last messages of a process can arrive after its end
      const bool is_seen_again = !std::exchange(ended, barrier.ended()).empty() && !ended.empty();
      if (is_seen_again) give_up(barrier, fmt::format("{}", fmt::join(ended, "; ")));
      if (!ended.empty()) barrier.send_heartbeats();
    }
    if (now - start > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace

void finalize_within_deadline(const mpi::Comm* job, Watches processes, const FinalizeOptions& options) {
  std::optional<AbortTimer> timer;
  try {
    if (job != nullptr && job->size() > 1) {
      LastBarrier barrier(job->get(), processes);
      await_all(barrier, options);
      pass_last_barrier();
    }
    timer.emplace(options.fail_after,
                  fmt::format("Environment: MPI_Finalize has not returned within {} s", seconds(options.fail_after)));
  } catch (const std::exception& error) {
    log_warning("Environment: MPI is finalized without a deadline: {}", error.what());
  }
  MPI_Finalize();
}

}  // namespace lockstep::detail
