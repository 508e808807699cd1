// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/inbox.hpp"

#include "base/leak.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "cluster/end_of_job.hpp"

#include <lockstep/base/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

/// If more closed endpoints await last messages, the oldest one is leaked: a rank that ends without a last message must
/// not make the list grow.
constexpr std::size_t most_closed_ends = 64;

class ClosedEnds final : public JobMember {
 public:
  ClosedEnds() { join_job(*this); }
  Mutex mutex;
  std::list<ClosedEnd> list LOCKSTEP_GUARDED_BY(mutex);

 private:
  void on_abort(const std::string&) noexcept override {}
  void on_finalize() noexcept override {}
  /// Receives the last messages, since UCX prints a warning about a message that is never received.
  void on_last_barrier() noexcept override {
    try {
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
      while (has_ends() && std::chrono::steady_clock::now() < until) {
        free_silent_ends();
        std::this_thread::yield();
      }
    } catch (const Error& error) {
      log_warning("cannot receive the last messages of other ranks: {}", error.what());
    }
  }
  [[nodiscard]] bool has_ends() {
    const MutexLock lock(mutex);
    return !list.empty();
  }
};

/// Never destroyed: if an endpoint still waits for messages when MPI is finalized, its resources are not freed.
ClosedEnds& closed_ends() {
  static NeverDestroyed<ClosedEnds> ends;
  return *ends;
}

[[nodiscard]] bool is_silent(ClosedEnd& end) {
  while (end.inbox->last_messages() < end.last_messages) {
    if (!end.inbox->poll()) return false;
  }
  end.inbox.reset();  // freed before the communicator that it uses
  return true;
}

/// The library's communicators are duplicates, but tools between the program and MPI see them, too.
void report_foreign_message(int bytes, int source) {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  log_warning(
      "ignoring a message of {} bytes from rank {} of an MPI communicator of lockstep, and further ones: lockstep has "
      "not sent it, since its messages have at least {} bytes",
      bytes, source, sizeof(WireHead));
}

}  // namespace

Inbox::Inbox(MPI_Comm comm, int tag, std::uint64_t number) : comm_(comm), tag_(tag), number_(number) {
  for (auto& incoming : incoming_) incoming = std::make_unique_for_overwrite<Incoming>();
  start_receiving();
}

Inbox::~Inbox() {
  if (request_ == MPI_REQUEST_NULL || !mpi::is_active()) return;
  MPI_Cancel(&request_);
  // MPI cannot cancel a message that has begun to arrive; if the sender is stopped or dead, the message is never
  // complete
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  for (int is_complete = 0; is_complete == 0;) {
    MPI_Test(&request_, &is_complete, MPI_STATUS_IGNORE);
    if (is_complete == 0 && std::chrono::steady_clock::now() > until) {
      leak(incoming_[0].release());
      return;
    }
  }
}

std::optional<ReceivedMessage> Inbox::poll() {
  for (;;) {
    int flag = 0;
    MPI_Status status;
    mpi::check(MPI_Test(&request_, &flag, &status), "MPI_Test");
    if (flag == 0) return std::nullopt;
    int bytes = 0;
    mpi::check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    std::swap(incoming_[0], incoming_[1]);
    start_receiving();
    if (static_cast<std::size_t>(bytes) < sizeof(WireHead)) {
      report_foreign_message(bytes, status.MPI_SOURCE);
      continue;
    }
    const Incoming& received = *incoming_[1];
    if (received.head.number != number_) continue;
    if (received.head.is_last != 0) ++last_messages_;
    return ReceivedMessage{status.MPI_SOURCE,
                           std::span(received.bytes).first(static_cast<std::size_t>(bytes) - sizeof(WireHead))};
  }
}

void Inbox::start_receiving() {
  mpi::check(MPI_Irecv(incoming_[0].get(), static_cast<int>(sizeof(Incoming)), MPI_BYTE, MPI_ANY_SOURCE, tag_, comm_,
                       &request_),
             "MPI_Irecv");
}

void free_when_silent(ClosedEnd&& end) {
  std::optional<ClosedEnd> oldest;
  {
    ClosedEnds& ends = closed_ends();
    const MutexLock lock(ends.mutex);
    ends.list.push_back(std::move(end));
    if (ends.list.size() > most_closed_ends) {
      oldest = std::move(ends.list.front());
      ends.list.pop_front();
    }
  }
  free_silent_ends();
  if (!oldest) return;
  const auto lock = mpi::serialize();
  oldest->inbox.reset();
  leak(new std::shared_ptr<Context>(std::move(oldest->context)));
}

void free_silent_ends() {
  std::list<ClosedEnd> silent;  // destroyed after the locks are released: freeing a communicator takes MPI's lock
  {
    ClosedEnds& ends = closed_ends();
    const MutexLock lock(ends.mutex);
    const auto mpi_lock = mpi::serialize();
    for (auto end = ends.list.begin(); end != ends.list.end();) {
      const auto next = std::next(end);
      if (is_silent(*end)) silent.splice(silent.end(), ends.list, end);
      end = next;
    }
  }
  for (const ClosedEnd& end : silent) {
    if (end.slot != 0) end.context->free_slot(end.slot);
  }
}

}  // namespace lockstep::detail
