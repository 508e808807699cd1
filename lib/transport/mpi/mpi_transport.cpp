// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/mpi_transport.hpp"

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"
#include "bindings/mpi/mpi.hpp"
#include "bindings/mpi/pending.hpp"
#include "transport/mpi/context.hpp"
#include "transport/mpi/group_end.hpp"
#include "transport/mpi/inbox.hpp"
#include "transport/mpi/mpi_group.hpp"
#include "transport/mpi/stale_transfers.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

class MpiTransport final : public GroupEnd {
 public:
  MpiTransport(MpiRanks ranks, std::uint64_t number, std::unique_ptr<NodeGroup> group)
      : GroupEnd(std::move(ranks), number, std::move(group)),
        comm_(ranks_.context->comm()),
        thread_level_(mpi::thread_level()),
        tags_(number, ranks_.slot),
        transfer_tag_(tags_.of_transfers(0)) {
    if (ranks_.slot != 0) {
      by_context_rank_.resize(ranks_.context_ranks.size());
      std::iota(by_context_rank_.begin(), by_context_rank_.end(), 0);
      std::sort(by_context_rank_.begin(), by_context_rank_.end(),
                [this](int a, int b) { return context_rank(a) < context_rank(b); });
    }
    free_silent_ends();
    if (group_ && nodes_ == 1) return;  // all messages are in the queues
    const auto lock = mpi::serialize();
    inbox_ = std::make_unique<Inbox>(comm_, tags_.of_messages(), number_);
  }

  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  ~MpiTransport() override { close(); }

  void close() noexcept override {
    if (std::exchange(is_closed_, true) || !mpi::is_active()) return;
    // a failure is sent to all ranks, so it may be in flight until each rank has sent its last message
    const bool is_told_by_all = !has_failed_ || is_told_by_all_;
    const bool clean = drain_outgoing() && slots_in_use_ == 0 && !has_stale_transfers_ && is_told_by_all;
    try {
      if (clean) {
        if (inbox_) {
          free_when_silent({std::move(ranks_.context), ranks_.slot, std::move(inbox_), last_messages_});
        } else {
          if (ranks_.slot != 0) ranks_.context->free_slot(ranks_.slot);
          ranks_.context.reset();
        }
        return;
      }
    } catch (const std::exception& error) {
      log_warning("closing a communicator: {}", error.what());
    }
    {
      const auto lock = mpi::serialize();
      inbox_.reset();
    }
    // A message that is never received still refers to the communicator and to memory of this object, so both are
    // leaked. The communicator is leaked even if all messages have been sent: a later transport must not get the same
    // communicator and tags while data of a failed operation, or a message about a failure, is in flight.
    leak(new std::shared_ptr<Context>(std::move(ranks_.context)));
    if (!outgoing_.empty()) leak(new std::deque<Outgoing>(std::move(outgoing_)));
  }

  std::span<const int> absent_ranks() override {
    if (!ranks_.is_job) return {};
    const auto lock = mpi::serialize();
    for (;;) {
      int has_come = 0;
      MPI_Status status;
      mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, absence_tag, comm_, &has_come, &status), "MPI_Iprobe");
      if (has_come == 0) return absent_ranks_;
      absent_ranks_.push_back(status.MPI_SOURCE);
      mpi::check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, absence_tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    }
  }
  std::string_view name() const noexcept override { return "mpi"; }
  bool has_free_threads() const noexcept override { return thread_level_ >= MPI_THREAD_MULTIPLE; }
  bool is_alive() const override { return !is_closed_ && mpi::is_active(); }
  void enter_epoch(std::uint64_t epoch, bool has_stale_transfers) override {
    const int tag = tags_.of_transfers(epoch);
    stale_.change_tag(std::exchange(transfer_tag_, tag), tag);
    has_failed_ = true;
    has_stale_transfers_ = has_stale_transfers_ || has_stale_transfers;
    if (epoch < tags_.epochs() || !is_alive()) return;
    try {
      const auto lock = mpi::serialize();
      stale_.drop_all(comm_, tag);
    } catch (const std::exception& error) {
      log_warning("data of a failed operation may not have been dropped: {}", error.what());
    }
  }
  /// Without MPI, no function of this class calls it.
  bool this_thread_may_call() const override { return !mpi::is_active() || mpi::this_thread_may_call(); }

  void post(int target, std::span<const std::byte> message) override { post({number_, 0}, message, target); }
  void post_last(int target, std::span<const std::byte> message) override { post({number_, 1}, message, target); }
  bool all_posted_left() override {
    if (outgoing_.empty()) return true;
    const auto lock = mpi::serialize();
    forget_complete();
    return outgoing_.empty();
  }
  void expect_last_messages(std::span<const int> sources) noexcept override {
    last_messages_ = static_cast<int>(
        std::count_if(sources.begin(), sources.end(), [this](int source) { return !has_queue_to(source); }));
    is_told_by_all_ = static_cast<int>(sources.size()) == size() - 1;
  }

  std::optional<ReceivedMessage> poll() override {
    if (queues_) {
      if (const auto message = queues_->poll()) return ReceivedMessage{message->source, message->bytes};
    }
    const auto lock = mpi::serialize();
    // only in some calls, because dropping stale messages is not urgent
    if (stale_.has_work() && ++polls_ % polls_per_look == 0) stale_.advance(comm_);
    if (!inbox_) {
      let_mpi_work();
      return std::nullopt;
    }
    auto received = inbox_->poll();
    if (received) received->source = member(received->source);
    return received;
  }

  Transfer send(int target, std::span<const std::byte> data) override {
    return start_sending(target, data, Kind::send, transfer_tag_);
  }
  Transfer receive(int source, std::span<std::byte> data) override {
    return start_receiving_from(source, data, Kind::receive, transfer_tag_);
  }
  Transfer send_aside(int target, std::span<const std::byte> data) override {
    return start_sending(target, data, Kind::aside, tags_.of_transfers_aside());
  }
  Transfer receive_aside(int source, std::span<std::byte> data) override {
    return start_receiving_from(source, data, Kind::aside, tags_.of_transfers_aside());
  }

  bool test(Transfer transfer) override {
    const auto lock = mpi::serialize();
    return test_pieces(transfer);
  }
  void test_some(std::span<const Transfer> transfers, std::vector<std::size_t>& complete) override {
    if (transfers.empty()) return;
    const auto lock = mpi::serialize();
    test_first_pieces(transfers);
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const Slot& slot = slots_[static_cast<std::size_t>(transfers[i])];
      const bool is_open = slot.complete < slot.requests.size() && slot.requests[slot.complete] != MPI_REQUEST_NULL;
      if (!is_open && test_pieces(transfers[i])) complete.push_back(i);  // tests the remaining pieces, too
    }
  }

  TransferCount count() const noexcept override { return count_; }

  /// MPI's collectives need an MPI communicator that no other transport uses.
  bool has_native_all_reduce(DType dtype) const noexcept override {
    return ranks_.slot == 0 && mpi::datatype(dtype).has_value();
  }

  Transfer start_native_all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override {
    const auto lock = mpi::serialize();
    const auto [transfer, requests] = new_slot(Kind::collective, 0);
    const MPI_Datatype type = mpi::datatype(dtype).value();
    const auto segment_elements = static_cast<std::int64_t>(ranks_.segment_bytes / size_of(dtype));
    for (std::int64_t begin = 0; begin < count; begin += segment_elements) {
      const auto elements = static_cast<int>(std::min(segment_elements, count - begin));
      std::byte* const start = static_cast<std::byte*>(data) + static_cast<std::size_t>(begin) * size_of(dtype);
      mpi::check(MPI_Iallreduce(MPI_IN_PLACE, start, elements, type, mpi::op(op), comm_,
                                &requests->emplace_back(MPI_REQUEST_NULL)),
                 "MPI_Iallreduce");
    }
    return transfer;
  }

  void abandon(std::span<const Transfer> transfers, std::vector<Buffer>&& memory) noexcept override {
    try {
      const auto lock = mpi::serialize();
      std::vector<MPI_Request> requests = std::move(unfinished_);
      unfinished_.clear();
      for (const Transfer transfer : transfers) {
        Slot& slot = slots_[static_cast<std::size_t>(transfer)];
        for (std::size_t i = slot.complete; i < slot.requests.size(); ++i) {
          if (slot.requests[i] == MPI_REQUEST_NULL) continue;
          if (slot.kind == Kind::receive) mpi::check(MPI_Cancel(&slot.requests[i]), "MPI_Cancel");
          requests.push_back(slot.requests[i]);
        }
        free_slot(transfer);
      }
      if (!requests.empty()) stale_.keep(std::move(requests), std::move(memory));
    } catch (const std::exception& error) {
      log_warning("leaking the memory of a failed transfer: {}", error.what());
      for (Buffer& buffer : memory) buffer.leak();
    }
    memory.clear();
  }

  void quarantine(Buffer&& memory) noexcept override { memory.leak(); }

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  enum class Kind : std::uint8_t { send, receive, aside, collective };
  struct Slot {
    std::vector<MPI_Request> requests;  // one per piece (see start_pieces)
    std::size_t complete = 0;           // number of leading pieces that are known to be complete
    Kind kind = Kind::send;
    std::size_t bytes = 0;
  };

  [[nodiscard]] int member(int context_rank) const {
    if (ranks_.slot == 0) return context_rank;
    const auto found = std::lower_bound(by_context_rank_.begin(), by_context_rank_.end(), context_rank,
                                        [this](int rank, int wanted) { return this->context_rank(rank) < wanted; });
    LOCKSTEP_CHECK(found != by_context_rank_.end() && this->context_rank(*found) == context_rank);
    return *found;
  }

  /// A program's own messages may be under way while this rank waits for others, which may wait for these messages.
  void let_mpi_work() {
    int has_come = 0;
    mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, tags_.of_messages(), comm_, &has_come, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }

  void post(const WireHead& head, std::span<const std::byte> message, int target) {
    LOCKSTEP_CHECK(message.size() <= most_message_bytes);
    if (has_queue_to(target)) return queues_->post(target, message);
    const auto lock = mpi::serialize();
    forget_complete();
    Outgoing& out = outgoing_.emplace_back();
    if (!spare_.empty()) {
      out.bytes = std::move(spare_.back());
      spare_.pop_back();
    }
    out.bytes.resize(sizeof(head) + message.size());
    std::memcpy(out.bytes.data(), &head, sizeof(head));
    std::copy(message.begin(), message.end(), out.bytes.begin() + sizeof(head));
    mpi::check(MPI_Isend(out.bytes.data(), static_cast<int>(out.bytes.size()), MPI_BYTE, context_rank(target),
                         tags_.of_messages(), comm_, &out.request),
               "MPI_Isend");
  }

  /// Frees the memory of posted messages, in the order of posting, up to the first message that has not left.
  void forget_complete() {
    for (; !outgoing_.empty() && is_complete(outgoing_.front().request); outgoing_.pop_front()) {
      if (spare_.size() < most_spare) spare_.push_back(std::move(outgoing_.front().bytes));
    }
  }

  std::pair<Transfer, std::vector<MPI_Request>*> new_slot(Kind kind, std::size_t bytes) {
    if (free_slots_.empty()) {
      free_slots_.reserve(slots_.size() + 1);  // so that free_slot never allocates
      slots_.emplace_back();
      free_slots_.push_back(slots_.size() - 1);
    }
    const std::size_t index = free_slots_.back();
    free_slots_.pop_back();
    if (slots_in_use_++ == 0) count_ = {count_.completed, 0, 0};
    Slot& slot = slots_[index];
    slot.kind = kind;
    slot.bytes = bytes;
    if (kind == Kind::send || kind == Kind::receive) count_.started_bytes += bytes;
    return {static_cast<Transfer>(index), &slot.requests};
  }

  void count_complete(const Slot& slot) {
    if (slot.kind == Kind::aside) return;
    ++count_.completed;
    if (slot.kind != Kind::collective)
      count_.moved_bytes += std::min(piece_bytes(), slot.bytes - slot.complete * piece_bytes());
  }

  void free_slot(Transfer transfer) {
    Slot& slot = slots_[static_cast<std::size_t>(transfer)];
    slot.requests.clear();
    slot.complete = 0;
    free_slots_.push_back(static_cast<std::size_t>(transfer));
    --slots_in_use_;
  }

  [[nodiscard]] std::size_t piece_bytes() const noexcept { return std::min(ranks_.segment_bytes, most_piece_bytes); }

  /// Starts a transfer as a sequence of pieces, one MPI message each. `start(begin, bytes, request)` starts one piece.
  template <class Start>
  Transfer start_pieces(std::size_t bytes, Kind kind, const Start& start) {
    const auto lock = mpi::serialize();
    const auto [transfer, requests] = new_slot(kind, bytes);
    try {
      const std::size_t pieces = (bytes + piece_bytes() - 1) / piece_bytes();
      requests->reserve(pieces);
      unfinished_.reserve(unfinished_.size() + pieces);  // no allocation while a piece is under way
      for (std::size_t begin = 0; begin < bytes; begin += piece_bytes())
        start(begin, static_cast<int>(std::min(piece_bytes(), bytes - begin)),
              &requests->emplace_back(MPI_REQUEST_NULL));
    } catch (...) {  // the operation will fail, and `abandon` will handle the pieces that were started
      std::erase(*requests, MPI_REQUEST_NULL);
      unfinished_.insert(unfinished_.end(), requests->begin(), requests->end());
      free_slot(transfer);
      throw;
    }
    return transfer;
  }

  Transfer start_sending(int target, std::span<const std::byte> data, Kind kind, int tag) {
    return start_pieces(data.size(), kind, [&](std::size_t begin, int bytes, MPI_Request* request) {
      mpi::check(MPI_Isend(data.data() + begin, bytes, MPI_BYTE, context_rank(target), tag, comm_, request),
                 "MPI_Isend");
    });
  }

  Transfer start_receiving_from(int source, std::span<std::byte> data, Kind kind, int tag) {
    return start_pieces(data.size(), kind, [&](std::size_t begin, int bytes, MPI_Request* request) {
      mpi::check(MPI_Irecv(data.data() + begin, bytes, MPI_BYTE, context_rank(source), tag, comm_, request),
                 "MPI_Irecv");
    });
  }

  bool test_pieces(Transfer transfer) {
    Slot& slot = slots_[static_cast<std::size_t>(transfer)];
    // pieces complete in order, or nearly so: only the first incomplete piece is tested
    for (; slot.complete < slot.requests.size(); ++slot.complete) {
      if (!is_complete(slot.requests[slot.complete])) return false;
      count_complete(slot);
    }
    free_slot(transfer);
    return true;
  }

  /// Tests the first incomplete piece of each transfer. The request of a complete piece becomes MPI_REQUEST_NULL.
  void test_first_pieces(std::span<const Transfer> transfers) {
    tested_.clear();
    for (const Transfer transfer : transfers) {
      const Slot& slot = slots_[static_cast<std::size_t>(transfer)];
      tested_.push_back(slot.complete < slot.requests.size() ? slot.requests[slot.complete] : MPI_REQUEST_NULL);
    }
    tested_indices_.resize(tested_.size());
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(tested_.size()), tested_.data(), &count, tested_indices_.data(),
                                  MPI_STATUSES_IGNORE);
    // after a fault, the indices do not tell which requests are complete, so all requests are copied back
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      Slot& slot = slots_[static_cast<std::size_t>(transfers[i])];
      if (slot.complete < slot.requests.size()) slot.requests[slot.complete] = tested_[i];
    }
    mpi::check(code, "MPI_Testsome");
  }

  static bool is_complete(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return true;
    int flag = 0;
    mpi::check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    return flag != 0;
  }

  /// Waits a short time until posted messages have left. Returns whether all messages of MPI have left. This wait
  /// delays the next operation of this rank, so it must be short even if the target is stopped.
  bool drain_outgoing() noexcept {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    try {
      for (;;) {
        const bool have_left = !queues_ || queues_->have_left();
        if (outgoing_.empty() && have_left) return true;
        if (std::chrono::steady_clock::now() > end) return outgoing_.empty();
        if (const auto lock = mpi::serialize(); !outgoing_.empty() && is_complete(outgoing_.front().request)) {
          outgoing_.pop_front();
          continue;
        }
        std::this_thread::yield();
      }
    } catch (const std::exception& error) {
      log_warning("closing a communicator: {}", error.what());
      return false;
    }
  }

  /// Maximum size of a piece. Progress is counted in whole pieces, so pieces must not be large. Each piece costs as
  /// much as a message, so pieces must not be very small.
  static constexpr std::size_t most_piece_bytes = std::size_t{512} << 10;
  static constexpr unsigned polls_per_look = 16;
  static constexpr std::size_t most_spare = 8;

  MPI_Comm comm_;
  int thread_level_;
  Tags tags_;
  int transfer_tag_;               // tag of transfers in the current epoch
  std::vector<int> absent_ranks_;  // absent ranks known so far; empty except in the transport of the job
  // the ranks, in the order of their ranks in the MPI communicator; empty if ranks_.slot is 0: the ranks are equal
  std::vector<int> by_context_rank_;
  bool has_failed_ = false;
  bool has_stale_transfers_ = false;  // whether data of a failed operation may still arrive
  bool is_closed_ = false;
  int last_messages_ = 0;          // number of last messages to receive before the context and the tags are freed
  bool is_told_by_all_ = false;    // whether all other ranks send last messages
  std::unique_ptr<Inbox> inbox_;   // null if all other ranks are in `queues_`
  std::deque<Outgoing> outgoing_;  // a deque: pushing and popping at its ends moves no elements
  std::vector<std::vector<std::byte>> spare_;  // memory of messages that have left
  std::deque<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::size_t slots_in_use_ = 0;
  TransferCount count_;
  std::vector<MPI_Request> tested_;  // requests that test_first_pieces passes to MPI_Testsome
  std::vector<int> tested_indices_;
  std::vector<MPI_Request> unfinished_;  // requests of transfers of which only some pieces could be started
  StaleTransfers stale_;
  unsigned polls_ = 0;
};

/// For each rank of `comm`, the lowest rank of its node. If all introductions have a leader, uses the nodes of the Job;
/// otherwise asks MPI. Collective.
std::vector<int> leaders_of(MPI_Comm comm, std::span<const Introduction> all) {
  std::unordered_map<int, int> lowest;  // by leader in the job
  std::vector<int> leaders;
  for (const Introduction& rank : all) {
    if (rank.leader < 0) return mpi::find_nodes(comm).leaders;
    leaders.push_back(lowest.try_emplace(rank.leader, static_cast<int>(leaders.size())).first->second);
  }
  return leaders;
}

/// The leader of this rank's node, as a rank of the job; -1 if there is no job, or if some rank of `comm` is not in it.
int leader_in_job(MPI_Comm comm, int rank) {
  const auto job = job_of_this_process();
  if (!job) return -1;
  const std::vector<int> ranks = mpi::ranks_in(comm, job->comm.get());
  if (std::find(ranks.begin(), ranks.end(), MPI_UNDEFINED) != ranks.end()) return -1;
  return job->nodes.leaders[static_cast<std::size_t>(ranks[static_cast<std::size_t>(rank)])];
}

/// If this rank cannot use TCP, the creation of groups fails on all ranks, or they choose MPI.
void connect(const BetweenNodes& between_nodes, MpiRanks& ranks) {
  ranks.transport = between_nodes.transport;
  // operations fail after half of the silence
  ranks.time_to_connect = std::min(ranks.time_to_connect, between_nodes.tcp.silence / 8);
  if (ranks.transport == TransportSetting::mpi) return;
  // asked for here, where MPI may be called: later groups are made on any thread
  ranks.job_ranks = std::make_shared<const std::vector<int>>(mpi::ranks_in(ranks.context->comm(), MPI_COMM_WORLD));
  try {
    ranks.network = TcpNetwork::of_this_process(between_nodes.tcp);
  } catch (const Error& error) {
    log_warning("{}", error.text());
  }
}

/// Returns the values of all ranks, by rank. Collective.
template <class T>
std::vector<T> exchange(MPI_Comm comm, int size, const T& own, CreationWait& wait) {
  mpi::PendingAllGather gather(comm, size, &own, sizeof(T));
  wait.until([&] { return gather.test(); }, "MPI_Iallgather");
  return gather.all_as<T>();
}

/// The MPI_Comm_idup calls of failed creations. MPI matches the k-th call of each rank over a communicator. Open MPI
/// makes no progress if a rank begins a call before its previous call is complete.
class AbandonedDuplicates {
 public:
  /// Never destroyed: MPI may still write to the memory of a call.
  static AbandonedDuplicates& of_this_process() {
    static NeverDestroyed<AbandonedDuplicates> all;
    return *all;
  }
  void keep(MPI_Comm original, std::unique_ptr<mpi::PendingDuplicate> pending) {
    const MutexLock lock(mutex_);
    pending_.emplace_back(original, std::move(pending));
  }
  /// Whether all kept calls over `original` are complete.
  [[nodiscard]] bool are_complete(MPI_Comm original) {
    const MutexLock lock(mutex_);
    std::erase_if(pending_, [&](const auto& each) { return each.first == original && each.second->test(); });
    return std::none_of(pending_.begin(), pending_.end(), [&](const auto& each) { return each.first == original; });
  }

 private:
  Mutex mutex_;
  std::vector<std::pair<MPI_Comm, std::unique_ptr<mpi::PendingDuplicate>>> pending_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Transport> make_transport(MpiRanks ranks, std::uint64_t number, std::unique_ptr<NodeGroup> group) {
  return std::make_unique<MpiTransport>(std::move(ranks), number, std::move(group));
}

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, bool share_memory, std::size_t segment_bytes,
                                              const CreationLimits& limits, const BetweenNodes& between_nodes) {
  LOCKSTEP_CHECK(segment_bytes > 0 && segment_bytes % 8 == 0 && segment_bytes <= std::numeric_limits<int>::max());
  CreationWait wait(comm, limits);
  AbandonedDuplicates& abandoned = AbandonedDuplicates::of_this_process();
  std::unique_ptr<mpi::PendingDuplicate> pending;
  while (true) {
    wait.until([&] { return abandoned.are_complete(comm); }, "an earlier MPI_Comm_idup");
    pending = std::make_unique<mpi::PendingDuplicate>(comm);
    if (wait.count_duplicate()) break;
    abandoned.keep(comm, std::move(pending));
  }
  try {
    wait.until([&] { return pending->test(); }, "MPI_Comm_idup");
  } catch (...) {
    abandoned.keep(comm, std::move(pending));
    throw;
  }
  auto context = std::make_shared<Context>(pending->take());
  const mpi::Comm& made = context->get();
  const int size = made.size();
  std::vector<int> all_ranks(static_cast<std::size_t>(size));
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  const int rank = made.rank();
  MpiRanks ranks{std::move(context), all_ranks, {}, {}, rank, 0, false, share_memory, segment_bytes};
  connect(between_nodes, ranks);
  const auto group = MpiGroup::first_of(std::move(ranks), leader_in_job(made.get(), rank));
  const auto introductions = exchange(made.get(), size, group->introduction(), wait);
  group->set_nodes(leaders_of(made.get(), introductions));
  group->join(introductions, all_ranks);
  if (group->needs_identities()) group->learn_peers(exchange(made.get(), size, group->identity(), wait));
  wait.until([&] { return group->test_trial(); }, "the choice between MPI and TCP");
  while (!group->accept(exchange(made.get(), size, group->vote(), wait))) {}
  return group->take();
}

std::unique_ptr<Transport> make_job_transport(const std::shared_ptr<const Job>& job, bool share_memory,
                                              const BetweenNodes& between_nodes) {
  std::vector<int> all_ranks(job->nodes.leaders.size());
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  constexpr std::size_t segment_bytes = std::size_t{1} << 30;
  MpiRanks ranks{Context::borrow(job->comm.get(), job),
                 std::move(all_ranks),
                 job->nodes.leaders,
                 job->processes,
                 job->comm.rank(),
                 0,
                 true,
                 share_memory,
                 segment_bytes};
  ranks.on_same_processors = {ranks.rank};
  connect(between_nodes, ranks);
  return std::make_unique<MpiTransport>(std::move(ranks), 0, nullptr);
}

}  // namespace lockstep::detail
