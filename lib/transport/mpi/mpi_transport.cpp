// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/mpi_transport.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "bindings/mpi/mpi.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

/// A message on the wire. MPI may reuse the context of a freed communicator for the next one while a message of the old
/// one is in flight: each transport has a number, and ignores messages with another number.
struct WireMessage {
  std::uint64_t number;
  Message message;
};

/// A number greater than that of every transport that any rank of `comm` had before. Collective.
std::uint64_t agree_on_number(MPI_Comm comm) {
  static std::atomic<std::uint64_t> last{0};
  std::uint64_t number = last.load() + 1;
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_UINT64_T, MPI_MAX, comm), "MPI_Allreduce");
  for (std::uint64_t known = last.load(); known < number && !last.compare_exchange_weak(known, number);) {}
  return number;
}

// Tags, of which every MPI has 32768: 0 for messages, odd numbers for transfers aside, even numbers for other
// transfers. They differ between successive transports, so that no transfer is matched with one that was never
// received.
constexpr int message_tag = 0;
constexpr std::uint64_t tags_of_a_kind = 16382;
int aside_tag_of(std::uint64_t number) { return 1 + 2 * static_cast<int>(number % tags_of_a_kind); }
int transfer_tag_of(std::uint64_t number, std::uint64_t epoch) {
  constexpr std::uint64_t epochs_apart = 509;
  return 2 + 2 * static_cast<int>((number % tags_of_a_kind * epochs_apart + epoch) % tags_of_a_kind);
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, bool share_memory, std::size_t segment_bytes)
      : segment_bytes_(segment_bytes),
        share_memory_(share_memory),
        signals_(mpi::Comm::duplicate_of(comm)),
        data_(mpi::Comm::duplicate_of(comm)),
        rank_(signals_.rank()),
        size_(signals_.size()),
        nodes_(mpi::find_nodes(signals_.get())),
        thread_level_(mpi::thread_level()),
        number_(agree_on_number(data_.get())),
        tag_(transfer_tag_of(number_, 0)) {
    nodes_.count == 1 ? share_node() : share_nodes();
    start_receiving();
  }

  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  ~MpiTransport() override {
    if (!mpi::is_active()) return;
    const auto lock = mpi::serialize();
    if (incoming_request_ != MPI_REQUEST_NULL) {
      MPI_Cancel(&incoming_request_);
      MPI_Wait(&incoming_request_, MPI_STATUS_IGNORE);
    }
    const bool clean = drain_outgoing() && slots_in_use_ == 0 && !has_failed_;
    if (!clean) {
      // messages that are never received still refer to the communicators and to this object's memory, so both are
      // leaked; then no other communicator gets their context while a message about a failure may be in flight
      signals_.release();
      data_.release();
      static auto* const kept = new std::deque<std::deque<Outgoing>>;
      kept->push_back(std::move(outgoing_));
    }
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  int nodes() const noexcept override { return nodes_.count; }
  int ranks_on_node() const noexcept override { return nodes_.ranks_here; }
  std::span<const int> node_leaders() const noexcept override { return nodes_.leaders; }
  NodeGroup* node_group() noexcept override { return nodes_.count == 1 ? group_.get() : nullptr; }
  NodeGroup* local_group() noexcept override { return nodes_.count > 1 ? group_.get() : nullptr; }
  std::string_view name() const noexcept override { return "mpi"; }
  bool has_free_threads() const noexcept override { return thread_level_ >= MPI_THREAD_MULTIPLE; }
  bool is_alive() const override { return mpi::is_active(); }
  void enter_epoch(std::uint64_t epoch) override {
    tag_ = transfer_tag_of(number_, epoch);
    has_failed_ = true;
  }
  bool this_thread_may_call() const override { return mpi::this_thread_may_call(); }

  void post(int target, const Message& message) override {
    const auto lock = mpi::serialize();
    while (!outgoing_.empty() && is_complete(outgoing_.front().request)) outgoing_.pop_front();
    Outgoing& out = outgoing_.emplace_back(Outgoing{{number_, message}, MPI_REQUEST_NULL});
    mpi::check(MPI_Isend(&out.wire_message, static_cast<int>(sizeof(WireMessage)), MPI_BYTE, target, message_tag,
                         signals_.get(), &out.request),
               "MPI_Isend");
  }

  std::optional<ReceivedMessage> poll() override {
    const auto lock = mpi::serialize();
    for (;;) {
      int flag = 0;
      MPI_Status status;
      mpi::check(MPI_Test(&incoming_request_, &flag, &status), "MPI_Test");
      if (flag == 0) return std::nullopt;
      const bool is_for_us = incoming_.number == number_;
      ReceivedMessage received{status.MPI_SOURCE, incoming_.message};
      start_receiving();
      if (is_for_us) return received;
    }
  }

  Transfer send(int target, std::span<const std::byte> data) override {
    return start_sending(target, data, data_.get(), tag_);
  }
  Transfer receive(int source, std::span<std::byte> data) override {
    return start_receiving_from(source, data, data_.get(), tag_);
  }
  Transfer send_aside(int target, std::span<const std::byte> data) override {
    return start_sending(target, data, signals_.get(), aside_tag_of(number_));
  }
  Transfer receive_aside(int source, std::span<std::byte> data) override {
    return start_receiving_from(source, data, signals_.get(), aside_tag_of(number_));
  }

  bool test(Transfer transfer) override {
    const auto lock = mpi::serialize();
    Slot& slot = slots_[static_cast<std::size_t>(transfer)];
    int flag = 0;
    mpi::check(MPI_Testall(static_cast<int>(slot.requests.size()), slot.requests.data(), &flag, MPI_STATUSES_IGNORE),
               "MPI_Testall");
    if (flag == 0) return false;
    slot.requests.clear();
    free_slots_.push_back(static_cast<std::size_t>(transfer));
    --slots_in_use_;
    return true;
  }

  bool has_native_all_reduce(DType dtype) const noexcept override { return mpi::datatype(dtype).has_value(); }

  Transfer start_native_all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override {
    const auto lock = mpi::serialize();
    const auto [transfer, requests] = new_slot();
    const MPI_Datatype type = mpi::datatype(dtype).value();
    const auto segment_elements = static_cast<std::int64_t>(segment_bytes_ / size_of(dtype));
    for (std::int64_t begin = 0; begin < count; begin += segment_elements) {
      const auto elements = static_cast<int>(std::min(segment_elements, count - begin));
      std::byte* const start = static_cast<std::byte*>(data) + static_cast<std::size_t>(begin) * size_of(dtype);
      mpi::check(MPI_Iallreduce(MPI_IN_PLACE, start, elements, type, mpi::op(op), data_.get(),
                                &requests->emplace_back(MPI_REQUEST_NULL)),
                 "MPI_Iallreduce");
    }
    return transfer;
  }

  void quarantine(Buffer&& memory) noexcept override { memory.leak(); }

  std::unique_ptr<Transport> split(std::span<const int> members) override {
    const auto place = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
    const int color = members.empty() ? MPI_UNDEFINED : members.front();  // no other group has the same color
    const mpi::Comm part = mpi::Comm::split_of(data_.get(), color, place);
    return members.empty() ? nullptr : std::make_unique<MpiTransport>(part.get(), share_memory_, segment_bytes_);
  }

  std::unique_ptr<Transport> duplicate() override {
    return std::make_unique<MpiTransport>(data_.get(), share_memory_, segment_bytes_);
  }

 private:
  struct Outgoing {
    WireMessage wire_message;
    MPI_Request request;
  };
  struct Slot {
    std::vector<MPI_Request> requests;
  };

  /// Collective.
  void share_node() {
    if (size_ == 1) {
      group_ = std::move(make_thread_groups(1).front());
      return;
    }
    std::string why;
    group_ = group_of(data_.get(), why);
    if (rank_ == 0) report_no_group(why);
  }

  /// Makes the local group of each node, or none if one of them fails. Collective.
  void share_nodes() {
    const mpi::Comm node = mpi::Comm::split_of(data_.get(), nodes_.leaders[static_cast<std::size_t>(rank_)], rank_);
    std::string why;
    if (node.size() > 1) {
      group_ = group_of(node.get(), why);
      if (node.rank() == 0) report_no_group(why);
    } else if (share_memory_) {
      group_ = std::move(make_thread_groups(1).front());
    }
    int shares = group_ != nullptr ? 1 : 0;
    mpi::check(MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MIN, data_.get()), "MPI_Allreduce");
    if (shares == 0) group_.reset();
  }

  /// The group of the processes of `comm`, all on one node. Collective.
  std::unique_ptr<NodeGroup> group_of(MPI_Comm comm, std::string& why) const {
    int rank = 0;
    int size = 0;
    mpi::check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    mpi::check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    const auto gather = [comm](const void* mine, void* all, std::size_t bytes) {
      const auto count = static_cast<int>(bytes);
      mpi::check(MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm), "MPI_Allgather");
    };
    return make_process_group(rank, size, share_memory_, gather, why);
  }

  void report_no_group(const std::string& why) const {
    static std::atomic<bool> is_said{false};
    if (!group_ && share_memory_ && !is_said.exchange(true)) {
      log_warning("ranks of this node communicate by messages, because they cannot share memory: {}", why);
    }
  }

  void start_receiving() {
    mpi::check(MPI_Irecv(&incoming_, static_cast<int>(sizeof(WireMessage)), MPI_BYTE, MPI_ANY_SOURCE, message_tag,
                         signals_.get(), &incoming_request_),
               "MPI_Irecv");
  }

  std::pair<Transfer, std::vector<MPI_Request>*> new_slot() {
    if (free_slots_.empty()) {
      free_slots_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const std::size_t index = free_slots_.back();
    free_slots_.pop_back();
    ++slots_in_use_;
    return {static_cast<Transfer>(index), &slots_[index].requests};
  }

  Transfer start_sending(int target, std::span<const std::byte> data, MPI_Comm comm, int tag) {
    const auto lock = mpi::serialize();
    const auto [transfer, requests] = new_slot();
    for (std::size_t begin = 0; begin < data.size(); begin += segment_bytes_) {
      const std::size_t bytes = std::min(segment_bytes_, data.size() - begin);
      mpi::check(MPI_Isend(data.data() + begin, static_cast<int>(bytes), MPI_BYTE, target, tag, comm,
                           &requests->emplace_back(MPI_REQUEST_NULL)),
                 "MPI_Isend");
    }
    return transfer;
  }

  Transfer start_receiving_from(int source, std::span<std::byte> data, MPI_Comm comm, int tag) {
    const auto lock = mpi::serialize();
    const auto [transfer, requests] = new_slot();
    for (std::size_t begin = 0; begin < data.size(); begin += segment_bytes_) {
      const std::size_t bytes = std::min(segment_bytes_, data.size() - begin);
      mpi::check(MPI_Irecv(data.data() + begin, static_cast<int>(bytes), MPI_BYTE, source, tag, comm,
                           &requests->emplace_back(MPI_REQUEST_NULL)),
                 "MPI_Irecv");
    }
    return transfer;
  }

  static bool is_complete(MPI_Request& request) {
    int flag = 0;
    mpi::check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    return flag != 0;
  }

  /// Waits at most a second until posted messages have left; returns whether all have.
  bool drain_outgoing() noexcept {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    try {
      while (!outgoing_.empty()) {
        if (is_complete(outgoing_.front().request)) {
          outgoing_.pop_front();
        } else if (std::chrono::steady_clock::now() > end) {
          return false;
        } else {
          std::this_thread::yield();
        }
      }
    } catch (const Error& error) {
      log_warning("closing a communicator: {}", error.what());
      return false;
    }
    return true;
  }

  std::size_t segment_bytes_;
  bool share_memory_;
  mpi::Comm signals_;
  mpi::Comm data_;
  int rank_;
  int size_;
  mpi::Nodes nodes_;
  int thread_level_;
  std::uint64_t number_;
  int tag_;  // tag of transfers of this epoch
  bool has_failed_ = false;
  std::unique_ptr<NodeGroup> group_;
  WireMessage incoming_{};
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  std::deque<Outgoing> outgoing_;  // a deque: growing and shrinking at its ends moves no elements
  std::deque<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::size_t slots_in_use_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, bool share_memory, std::size_t segment_bytes) {
  LOCKSTEP_CHECK(segment_bytes > 0 && segment_bytes % 8 == 0 && segment_bytes <= std::numeric_limits<int>::max());
  return std::make_unique<MpiTransport>(comm, share_memory, segment_bytes);
}

}  // namespace lockstep::detail
