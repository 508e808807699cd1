// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/creation_wait.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "base/pause.hpp"
#include "base/phrases.hpp"
#include "transport/mpi/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>

namespace lockstep::detail {
namespace {

/// A message: the sender makes its `number`-th communicator over the ranks whose hash is `key`. `failed` is the number
/// of the last of these communicators whose creation has failed on the sender; 0 if none has failed.
struct Attempt {
  std::uint64_t key = 0;
  std::uint64_t number = 0;
  std::uint64_t failed = 0;
  static constexpr std::size_t most_missing = 16;
  std::array<std::int32_t, most_missing> missing{};  // lowest ranks that were missing in the failed creation
  std::uint64_t missing_count = 0;                   // number of valid elements of `missing`

  void set_missing(std::span<const int> ranks) {
    missing_count = std::min(ranks.size(), most_missing);
    std::copy_n(ranks.begin(), missing_count, missing.begin());
  }
  [[nodiscard]] std::span<const int> missing_ranks() const { return std::span(missing).first(missing_count); }
};

/// The creations of this process, and the arrivals of other processes that this process knows. Shared by all threads.
/// Never destroyed: MPI may still read outgoing messages.
class Arrivals {
 public:
  static Arrivals& of_this_process() {
    static NeverDestroyed<Arrivals> arrivals;
    return *arrivals;
  }

  [[nodiscard]] std::uint64_t count(std::uint64_t key) LOCKSTEP_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return ++own_[key];
  }
  [[nodiscard]] std::uint64_t count_duplicate(std::uint64_t key) LOCKSTEP_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return ++own_duplicates_[key];
  }
  void note_failed(std::uint64_t key, std::uint64_t number) LOCKSTEP_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    own_failed_[key] = std::max(own_failed_[key], number);
  }
  [[nodiscard]] std::uint64_t last_failed(std::uint64_t key) LOCKSTEP_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return own_failed_[key];
  }

  void send(MPI_Comm comm, const std::vector<int>& targets, const Attempt& attempt) LOCKSTEP_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto mpi_lock = mpi::serialize();
    for (const int target : targets) {
      Message& message = outgoing_.emplace_back(Message{attempt, MPI_REQUEST_NULL});
      mpi::check(MPI_Isend(&message.attempt, sizeof(Attempt), MPI_BYTE, target, Tags::arrivals, comm, &message.request),
                 "MPI_Isend");
    }
  }

  void receive(MPI_Comm comm) LOCKSTEP_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto mpi_lock = mpi::serialize();
    while (true) {
      int flag = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      mpi::check(MPI_Improbe(MPI_ANY_SOURCE, Tags::arrivals, comm, &flag, &message, &status), "MPI_Improbe");
      if (flag == 0) break;
      Attempt attempt;
      mpi::check(MPI_Mrecv(&attempt, sizeof(Attempt), MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
      known_[{status.MPI_SOURCE, attempt.key}] = attempt;  // the newest: messages of one rank arrive in order
    }
    while (!outgoing_.empty()) {
      int flag = 0;
      mpi::check(MPI_Test(&outgoing_.front().request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
      if (flag == 0) break;
      outgoing_.pop_front();
    }
  }

  /// The last message of `rank` about `key`; a default-constructed Attempt if there is none.
  [[nodiscard]] Attempt known(int rank, std::uint64_t key) LOCKSTEP_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = known_.find({rank, key});
    return found == known_.end() ? Attempt() : found->second;
  }

 private:
  struct Message {
    Attempt attempt;
    MPI_Request request;
  };
  Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> own_ LOCKSTEP_GUARDED_BY(mutex_);             // creations of this rank, by key
  std::map<std::uint64_t, std::uint64_t> own_duplicates_ LOCKSTEP_GUARDED_BY(mutex_);  // MPI_Comm_idup calls, by key
  std::map<std::uint64_t, std::uint64_t> own_failed_ LOCKSTEP_GUARDED_BY(mutex_);      // last failed creation, by key
  std::map<std::pair<int, std::uint64_t>, Attempt> known_ LOCKSTEP_GUARDED_BY(mutex_);  // by rank and key
  std::deque<Message> outgoing_ LOCKSTEP_GUARDED_BY(mutex_);
};

/// FNV-1a.
std::uint64_t hash_of(const std::vector<int>& ranks) {
  std::uint64_t hash = 14695981039346656037U;
  for (const int rank : ranks) hash = (hash ^ static_cast<std::uint64_t>(rank)) * 1099511628211U;
  return hash;
}

}  // namespace

CreationWait::CreationWait(MPI_Comm comm, CreationLimits limits) : limits_(std::move(limits)) {
  job_ = job_of_this_process();
  if (!job_) return;
  own_rank_ = job_->comm.rank();
  members_ = mpi::ranks_in(comm, job_->comm.get());
  if (std::find(members_.begin(), members_.end(), MPI_UNDEFINED) != members_.end()) {
    members_.clear();
    job_.reset();
    return;
  }
  key_ = hash_of(members_);
  number_ = Arrivals::of_this_process().count(key_);
}

bool CreationWait::count_duplicate() {
  if (!job_) return true;
  Arrivals& arrivals = Arrivals::of_this_process();
  arrivals.receive(job_->comm.get());
  const std::uint64_t begun = arrivals.count_duplicate(key_);
  std::uint64_t failed_there = 0;
  for (const int member : members_) failed_there = std::max(failed_there, arrivals.known(member, key_).failed);
  // if no creation has failed, the MPI_Comm_idup belongs to this creation; the counts below would not show this,
  // because several threads may make communicators over the same ranks at the same time
  if (failed_there == 0 && arrivals.last_failed(key_) == 0) return true;
  if (begun < number_) return false;
  if (failed_there < number_) return true;
  number_ = arrivals.count(key_);
  return false;
}

void CreationWait::until(const std::function<bool()>& test, const char* call) {
  constexpr std::uint32_t yields = 1000;
  for (std::uint32_t polls = 1; !test(); ++polls) {
    if (polls <= yields) {
      yield_core(polls);
    } else {
      sleep_briefly(std::chrono::microseconds(100), polls);
    }
    if (polls % 16 == 0) check_time(call);
  }
}

void CreationWait::check_time(const char* call) {
  const auto waited = Clock::now() - since_;
  if (waited < std::chrono::milliseconds(50)) return;
  look_at_arrivals(call);
  if (waited > std::min(limits_.warn_after, limits_.fail_after / 2)) send_arrival();
  const auto answer_time = std::min(std::chrono::milliseconds(200), limits_.fail_after / 10);
  if (waited > limits_.fail_after) {
    const std::vector<int> missing = missing_ranks();
    send_failure(missing);
    fail(fmt::format("timed out after {} s waiting in {}{}", seconds(limits_.fail_after), call, text_of(missing)),
         missing.empty() ? -1 : missing.front());
  }
  if (has_warned_ || waited <= limits_.warn_after + answer_time) return;
  has_warned_ = true;
  log_warning("creation of {}: this rank has waited {:.1f} s in {}{}", limits_.name, seconds(waited), call,
              text_of(missing_ranks()));
}

/// If another rank waits for a long time, sends the arrival of this rank. If another rank has timed out, this rank
/// fails, too.
void CreationWait::look_at_arrivals(const char* call) {
  if (!job_) return;
  Arrivals& arrivals = Arrivals::of_this_process();
  arrivals.receive(job_->comm.get());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Attempt other = arrivals.known(members_[i], key_);
    if (other.failed == number_ && other.number == number_) {
      const auto missing = other.missing_ranks();
      fail(fmt::format("rank {} has timed out{}; this rank waits in {}", i,
                       missing.empty() ? "" : " waiting for " + ranks_phrase(missing), call),
           missing.empty() ? static_cast<int>(i) : missing.front());
    }
    if (other.number == number_) send_arrival();
  }
}

void CreationWait::send_arrival() {
  if (!job_ || std::exchange(has_sent_arrival_, true)) return;
  Arrivals& arrivals = Arrivals::of_this_process();
  arrivals.send(job_->comm.get(), other_members(), {key_, number_, arrivals.last_failed(key_)});
}

void CreationWait::send_failure(const std::vector<int>& missing) {
  if (!job_) return;
  Attempt attempt{key_, number_, number_};
  attempt.set_missing(missing);
  Arrivals::of_this_process().send(job_->comm.get(), other_members(), attempt);
}

std::vector<int> CreationWait::other_members() const {
  std::vector<int> others = members_;
  std::erase(others, own_rank_);
  return others;
}

std::vector<int> CreationWait::missing_ranks() const {
  std::vector<int> missing;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] != own_rank_ && Arrivals::of_this_process().known(members_[i], key_).number < number_)
      missing.push_back(static_cast<int>(i));
  }
  return missing;
}

std::string CreationWait::text_of(const std::vector<int>& missing) const {
  if (!job_) return "; the missing ranks are known only if there is a lockstep::Environment";
  if (missing.empty()) return "; all ranks have made the call";
  return " for " + ranks_phrase(missing);
}

void CreationWait::fail(const std::string& text, int culprit) const {
  if (job_) Arrivals::of_this_process().note_failed(key_, number_);
  throw Error(Code::deadline_exceeded, fmt::format("creation of {}: {}", limits_.name, text),
              {culprit, -1, "creation of a communicator", -1});
}

}  // namespace lockstep::detail
