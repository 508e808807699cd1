// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Transport between ranks of an MPI job whose messages and transfers go over TCP. MPI has started the job and told the
// addresses.

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/log.hpp"
#include "transport/mpi/group_end.hpp"
#include "transport/mpi/mpi_group.hpp"
#include "transport/tcp/network.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <limits>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

namespace lockstep::detail {
namespace {

using State = TcpTransfer::State;

/// The tag of transfers aside; that of other transfers is their epoch.
constexpr std::uint64_t aside_tag = std::numeric_limits<std::uint64_t>::max();

class TcpTransport final : public GroupEnd {
 public:
  TcpTransport(MpiRanks ranks, std::uint64_t number, std::unique_ptr<NodeGroup> group)
      : GroupEnd(std::move(ranks), number, std::move(group)), network_(ranks_.network), id_(ranks_.group_id) {
    for (int rank = 0; rank < size(); ++rank) rank_of_peer_[peer_of(rank)] = rank;
  }
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;
  ~TcpTransport() override { close(); }

  void close() noexcept override {
    if (std::exchange(is_closed_, true)) return;
    try {
      drain_outgoing();
      network_->close_group(id_);
      if (mpi::is_active() && ranks_.slot != 0) ranks_.context->free_slot(ranks_.slot);
    } catch (const std::exception& error) {
      log_warning("closing a communicator: {}", error.what());
    }
    for (Slot& slot : slots_) network_->cancel(*slot.transfer);
    for (Kept& kept : kept_) {
      for (const auto& transfer : kept.transfers) network_->cancel(*transfer);
    }
    kept_.clear();
    if (mpi::is_active() && this_thread_may_call_mpi()) {
      ranks_.context.reset();
    } else {
      leak(new std::shared_ptr<Context>(std::move(ranks_.context)));  // this thread must not free what is MPI's
    }
  }

  std::string_view name() const noexcept override { return "tcp"; }
  bool has_free_threads() const noexcept override { return true; }
  bool this_thread_may_call() const override { return true; }
  bool is_alive() const override { return !is_closed_ && mpi::is_active(); }
  std::vector<LostRank> lost_ranks() override {
    std::vector<LostRank> lost;
    if (network_->lost_peers() == 0) return lost;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == this->rank() || has_queue_to(rank)) continue;
      if (auto loss = network_->loss_of(peer_of(rank), id_))
        lost.push_back({rank, std::move(loss->why), loss->has_left});
    }
    return lost;
  }

  std::size_t losses() const noexcept override { return network_->lost_peers(); }

  void enter_epoch(std::uint64_t epoch, bool) override {
    epoch_ = epoch;
    network_->drop_before(id_, epoch);
  }

  void post(int target, std::span<const std::byte> message) override {
    LOCKSTEP_CHECK(message.size() <= most_message_bytes);
    if (has_queue_to(target)) return queues_->post(target, message);
    const int peer = peer_of(target);
    if (std::find(posted_to_.begin(), posted_to_.end(), peer) == posted_to_.end()) posted_to_.push_back(peer);
    network_->post(peer, id_, message);
  }
  bool all_posted_left() override {
    if (posted_to_.empty()) return true;
    network_->progress();
    std::erase_if(posted_to_, [this](int peer) { return network_->has_left(peer); });
    return posted_to_.empty();
  }

  std::optional<ReceivedMessage> poll() override {
    if (queues_) {
      if (const auto message = queues_->poll()) return ReceivedMessage{message->source, message->bytes};
    }
    let_mpi_work();
    free_kept();
    received_ = network_->poll(id_);
    if (!received_) {
      network_->progress();
      received_ = network_->poll(id_);
    }
    if (!received_) return std::nullopt;
    return ReceivedMessage{rank_of_peer_.at(received_->peer), received_->bytes};
  }

  bool can_sleep() const noexcept override { return group_ == nullptr || group_->size() == 1; }
  void sleep(std::chrono::microseconds time) const override {
    network_->sleep(time);
    has_slept_.store(true, std::memory_order_relaxed);
  }

  Transfer send(int target, std::span<const std::byte> data) override {
    return start(target, Kind::send, data.size(),
                 [&](TcpTransfer& transfer, int peer) { network_->send(transfer, peer, id_, epoch_, data); });
  }
  Transfer receive(int source, std::span<std::byte> data) override {
    return start(source, Kind::receive, data.size(),
                 [&](TcpTransfer& transfer, int peer) { network_->receive(transfer, peer, id_, epoch_, data); });
  }
  Transfer send_aside(int target, std::span<const std::byte> data) override {
    return start(target, Kind::aside, data.size(),
                 [&](TcpTransfer& transfer, int peer) { network_->send(transfer, peer, id_, aside_tag, data); });
  }
  Transfer receive_aside(int source, std::span<std::byte> data) override {
    return start(source, Kind::aside, data.size(),
                 [&](TcpTransfer& transfer, int peer) { network_->receive(transfer, peer, id_, aside_tag, data); });
  }

  bool has_transfers_by_number() const noexcept override { return true; }
  Transfer send_by_number(int target, std::int64_t number, std::span<const std::byte> data) override {
    return start(target, Kind::by_number, data.size(), [&](TcpTransfer& transfer, int peer) {
      network_->send_by_number(transfer, peer, id_, static_cast<std::uint64_t>(number), data);
    });
  }
  Transfer receive_by_number(int source, std::int64_t number, std::span<std::byte> data) override {
    return start(source, Kind::by_number, data.size(), [&](TcpTransfer& transfer, int peer) {
      network_->receive_by_number(transfer, peer, id_, static_cast<std::uint64_t>(number), data);
    });
  }

  bool test(Transfer transfer) override {
    if (is_complete(transfer)) return true;
    network_->progress();
    return is_complete(transfer);
  }
  void test_some(std::span<const Transfer> transfers, std::vector<std::size_t>& complete) override {
    if (transfers.empty()) return;
    network_->progress();
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (is_complete(transfers[i])) complete.push_back(i);
    }
  }
  TransferCount count() const noexcept override { return count_; }

  bool has_native_all_reduce(DType) const noexcept override { return false; }
  Transfer start_native_all_reduce(void*, std::int64_t, DType, ReduceOp) override {
    throw_error(Code::internal, "connections over TCP have no reductions of their own");
  }

  void abandon(std::span<const Transfer> transfers, std::vector<Buffer>&& memory) noexcept override {
    std::size_t kept_transfers = 0;
    for (const Transfer transfer : transfers) {
      Slot& slot = slots_[static_cast<std::size_t>(transfer)];
      if (slot.kind == Kind::aside && network_->state(*slot.transfer) == State::pending) {
        ++kept_transfers;
        continue;
      }
      network_->cancel(*slot.transfer);
      free_slot(transfer);
      slot.kind = Kind::free;
    }
    if (kept_transfers == 0) return memory.clear();
    try {
      Kept kept;
      kept.transfers.reserve(kept_transfers);
      kept_.reserve(kept_.size() + 1);
      std::vector<std::unique_ptr<TcpTransfer>> replacements;
      for (std::size_t i = 0; i < kept_transfers; ++i) replacements.push_back(std::make_unique<TcpTransfer>());
      for (const Transfer transfer : transfers) {
        Slot& slot = slots_[static_cast<std::size_t>(transfer)];
        if (slot.kind == Kind::free) continue;
        kept.transfers.push_back(std::exchange(slot.transfer, std::move(replacements.back())));
        replacements.pop_back();
        free_slot(transfer);
      }
      kept.memory = std::move(memory);
      kept_.push_back(std::move(kept));
    } catch (const std::exception& error) {
      log_warning("leaking the memory of a failed transfer: {}", error.what());
      for (Buffer& buffer : memory) buffer.leak();
    }
    memory.clear();
  }

  /// No transfer accesses memory after it was cancelled.
  void quarantine(Buffer&& memory) noexcept override { memory = Buffer(); }

 private:
  enum class Kind : std::uint8_t { free, send, receive, aside, by_number };
  struct Slot {
    std::unique_ptr<TcpTransfer> transfer = std::make_unique<TcpTransfer>();
    Kind kind = Kind::free;
    std::size_t counted = 0;  // bytes in `count_`
  };
  /// Transfers aside that were abandoned, but take place.
  struct Kept {
    std::vector<std::unique_ptr<TcpTransfer>> transfers;
    std::vector<Buffer> memory;
  };

  /// Without a lock that the program's own calls have, too, MPI may only be called where these are made.
  [[nodiscard]] static bool this_thread_may_call_mpi() {
    if (mpi::thread_level() >= MPI_THREAD_MULTIPLE) return true;
    int is_main = 0;
    mpi::check(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
    return is_main != 0;
  }

  [[nodiscard]] int peer_of(int rank) const { return ranks_.peers[static_cast<std::size_t>(rank)]; }

  [[nodiscard]] static bool is_counted(Kind kind) noexcept { return kind == Kind::send || kind == Kind::receive; }

  template <class Start>
  Transfer start(int rank, Kind kind, std::size_t bytes, const Start& start_transfer) {
    if (free_slots_.empty()) {
      free_slots_.reserve(slots_.size() + 1);  // so that free_slot never allocates
      slots_.emplace_back();
      free_slots_.push_back(slots_.size() - 1);
    }
    const std::size_t index = free_slots_.back();
    Slot& slot = slots_[index];
    try {
      start_transfer(*slot.transfer, peer_of(rank));
    } catch (const std::bad_alloc&) {
      network_->cancel(*slot.transfer);
      throw;
    }
    free_slots_.pop_back();
    if (slots_in_use_++ == 0) count_ = {count_.completed, 0, 0};
    slot.kind = kind;
    slot.counted = 0;
    if (is_counted(kind)) count_.started_bytes += bytes;
    return static_cast<Transfer>(index);
  }

  void free_slot(Transfer transfer) noexcept {
    free_slots_.push_back(static_cast<std::size_t>(transfer));
    --slots_in_use_;
  }

  [[nodiscard]] bool is_complete(Transfer transfer) {
    Slot& slot = slots_[static_cast<std::size_t>(transfer)];
    const State state = network_->state(*slot.transfer);
    if (state == State::failed) return false;  // `lost_ranks` says why
    if (is_counted(slot.kind)) {
      const std::size_t moved = network_->moved_bytes(*slot.transfer);
      if (moved > slot.counted || state == State::done) ++count_.completed;
      count_.moved_bytes += moved - slot.counted;
      slot.counted = moved;
    }
    if (state != State::done) return false;
    free_slot(transfer);
    return true;
  }

  void free_kept() {
    std::erase_if(kept_, [this](const Kept& kept) {
      return std::none_of(kept.transfers.begin(), kept.transfers.end(),
                          [this](const auto& transfer) { return network_->state(*transfer) == State::pending; });
    });
  }

  /// A program's own messages may be under way while this rank waits for others, which may wait for these messages.
  void let_mpi_work() {
    const bool is_time = ++polls_ % polls_per_look == 0 || has_slept_.load(std::memory_order_relaxed);
    if (!is_time || !mpi::is_active() || !this_thread_may_call_mpi()) return;
    has_slept_.store(false, std::memory_order_relaxed);
    const auto lock = mpi::serialize();
    int has_come = 0;
    mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, 0, ranks_.context->comm(), &has_come, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }

  /// Waits a short time until posted messages have left.
  void drain_outgoing() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (!all_posted_left() || (queues_ && !queues_->have_left())) {
      if (std::chrono::steady_clock::now() > end) return;
      std::this_thread::yield();
    }
  }

  static constexpr unsigned polls_per_look = 16;

  const std::shared_ptr<TcpNetwork> network_;
  const std::uint64_t id_;
  std::unordered_map<int, int> rank_of_peer_;
  std::uint64_t epoch_ = 0;
  bool is_closed_ = false;
  std::optional<TcpNetwork::Message> received_;  // what `poll` has returned last
  std::vector<int> posted_to_;                   // peers to which messages may not have left
  std::deque<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::size_t slots_in_use_ = 0;
  std::vector<Kept> kept_;
  TransferCount count_;
  unsigned polls_ = 0;
  mutable std::atomic<bool> has_slept_{false};  // since MPI was called
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(MpiRanks ranks, std::uint64_t number, std::unique_ptr<NodeGroup> group) {
  return std::make_unique<TcpTransport>(std::move(ranks), number, std::move(group));
}

}  // namespace lockstep::detail
