// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Movement of bytes and signals between the ranks of one group. The layers above decide what is moved and when.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include "base/process.hpp"
#include "base/processor.hpp"
#include "cluster/settings.hpp"
#include "transport/buffer.hpp"
#include "transport/shm/node_group.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep::detail {

/// The maximum size of a message.
inline constexpr std::size_t most_message_bytes = std::size_t{65} << 10;

struct ReceivedMessage {
  int source = -1;
  std::span<const std::byte> bytes;  ///< valid until the next call of `poll`
};

/// Identifies a group among all groups. Equal on all ranks of the group.
struct GroupIdentity {
  std::uint64_t number = 0;
  std::vector<int> job_ranks;  ///< for each rank, its rank in MPI_COMM_WORLD; empty if the ranks are threads
};

/// A rank that this rank cannot reach any more. It may live.
struct LostRank {
  int rank;
  std::string why;  ///< "the connection has ended: Connection reset by peer"
  bool has_left;    ///< it has ended its connections in an orderly way
};

/// The number of a transfer in progress. The numbers of completed transfers are reused.
enum class Transfer : std::int32_t {};

/// The progress of the transfers of a rank. Transfers aside (see Transport::send_aside) are not counted.
struct TransferCount {
  std::uint64_t completed = 0;  ///< number of completed messages of transfers; never decreases
  // the next two members count from the last time at which no transfer was in progress
  std::uint64_t moved_bytes = 0;
  std::uint64_t started_bytes = 0;
};

class Transport;

/// What moves data between nodes, as ranks have chosen that could.
enum class TransportChoice : std::uint8_t { none, mpi, tcp };

/// The data that a rank sends to the other ranks, as bytes, when a group is made.
struct Introduction {
  std::uint64_t number = 0;      ///< greater than the numbers of all earlier groups of this rank
  std::uint64_t duplicates = 0;  ///< number of MPI_Comm_idup calls of this rank on the parent's communicator
  std::int32_t leader = -1;  ///< leader of the node, as a rank of the job; -1 if unknown; unused if there is a parent
  TransportSetting transport = TransportSetting::mpi;  ///< that the rank wants between nodes
  TransportChoice chosen = TransportChoice::none;      ///< by an earlier communicator of the rank, with `automatic`
  std::uint64_t choice = 0;                            ///< identifies the communicator that has chosen
  ProcessId process;
  AllowedCpus processors;
  NodeIntroduction node;
  std::uint64_t offers_memory = 0;  ///< 1 if it offers memory to the ranks of its node
  std::uint64_t token = 0;  ///< unless it uses MPI: random; that of the lowest rank of a group identifies the group
};
static_assert(std::is_trivially_copyable_v<Introduction>);

/// Whether a rank can make the group, after it has seen the introductions of all ranks.
struct Vote {
  std::uint8_t shares_memory = 1;  ///< 1 if the rank has mapped the memory of all members of its node
  std::uint8_t has_tags = 1;       ///< 1 if the tags of the group are free on the rank
};

/// Makes new groups from the ranks of an existing group, the parent. The caller exchanges the data between the ranks,
/// and enforces its own deadline. All ranks of the parent take these steps:
///   1. exchange `introduction`, then call `join`;
///   2. if `needs_context`: call `start_context`, then call `test_context` until it returns true;
///   3. exchange `vote`, then call `accept`; repeat this step until `accept` returns true;
///   4. call `take`.
/// No function waits. The object may be destroyed after any step: memory that MPI or other ranks may access is leaked.
/// Not thread-safe; in steps 1 and 2 the caller holds the lock of the parent's engine.
class NewGroup {
 public:
  NewGroup() = default;
  NewGroup(const NewGroup&) = delete;
  NewGroup& operator=(const NewGroup&) = delete;
  virtual ~NewGroup() = default;

  [[nodiscard]] virtual Introduction introduction() const = 0;
  /// `all` has the introductions, by rank of the parent. `members` has the ranks of the parent in this rank's group, in
  /// the order of their new ranks; it is empty if this rank joins no group. If several groups are made at the same
  /// time, they have no rank in common.
  virtual void join(std::span<const Introduction> all, std::span<const int> members) = 0;
  /// Whether the backend needs a collective to make a context, such as an MPI communicator, for the group. The same on
  /// all ranks.
  [[nodiscard]] virtual bool needs_context() const noexcept = 0;
  /// Collective over the parent.
  virtual void start_context() = 0;
  [[nodiscard]] virtual bool test_context() = 0;
  /// Called if the caller will not call `test_context` any more.
  virtual void abandon_context() noexcept = 0;
  [[nodiscard]] virtual Vote vote() = 0;
  /// `votes` has the votes, by rank of the parent. Returns false, on all ranks, if the ranks must vote again. Throws
  /// Error(unavailable), on all ranks, if the group cannot be made.
  [[nodiscard]] virtual bool accept(std::span<const Vote> votes) = 0;
  /// Returns the endpoint of the new group; null if this rank joins no group.
  [[nodiscard]] virtual std::unique_ptr<Transport> take() = 0;
};

/// The endpoint of one rank in a group. Not thread-safe: the engine calls it under the engine's lock. No function
/// waits.
///
/// Messages from one rank to another arrive in order. Transfers between a pair of ranks are matched in the order in
/// which both sides started them. Messages and transfers are matched separately, and do not delay each other.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual int nodes() const noexcept = 0;
  /// The ranks, including this rank, that could run on exactly the processors of this rank when the group was made: all
  /// ranks of the node if no rank is bound, and this rank if each rank is bound to a processor of its own. Not those
  /// whose processors are partly the same. All ranks if ranks are threads.
  [[nodiscard]] virtual std::vector<int> ranks_on_same_processors() const {
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  /// For each rank, the lowest rank that shares memory with that rank. The same on all ranks.
  [[nodiscard]] virtual std::span<const int> node_leaders() const noexcept = 0;
  /// The processes of the ranks of this rank's node, in the order of their ranks. Empty if ranks are threads.
  [[nodiscard]] virtual std::span<const ProcessId> processes() const noexcept { return {}; }
  /// Tells of the end of the process of `member`, an index in `processes`; null if it cannot be watched.
  [[nodiscard]] virtual std::shared_ptr<const ProcessEnd> process_of(int member) const {
    const auto at = static_cast<std::size_t>(member);
    return at < processes().size() ? ProcessWatch::of(processes()[at]) : nullptr;
  }
  /// The ranks whose connections to this rank have ended, and from which no message is left.
  [[nodiscard]] virtual std::vector<LostRank> lost_ranks() { return {}; }
  /// Grows when `lost_ranks` may do so.
  [[nodiscard]] virtual std::size_t losses() const noexcept { return 0; }
  /// The ranks known to finalize MPI without ever having made their endpoint of this group.
  [[nodiscard]] virtual std::span<const int> absent_ranks() { return {}; }
  /// The memory that all ranks share; null unless all ranks are on one node and can access each other's memory.
  [[nodiscard]] virtual NodeGroup* node_group() noexcept = 0;
  /// If the ranks are on several nodes: the memory that the ranks of this rank's node share, with members in the order
  /// of their ranks. On a node with one rank, that rank is the only member. Null on all ranks if there is only one
  /// node, or if two ranks of any node cannot access each other's memory.
  [[nodiscard]] virtual NodeGroup* local_group() noexcept = 0;
  /// The memory that the ranks of this rank's node share, on one node or on several nodes; null if there is neither a
  /// `node_group` nor a `local_group`.
  [[nodiscard]] NodeGroup* sharing_group() noexcept {
    NodeGroup* const all = node_group();
    return all != nullptr ? all : local_group();
  }
  /// The name of the backend: "mpi", "tcp" or "threads".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Why it was chosen, with what was measured; empty if there was no choice.
  [[nodiscard]] virtual std::string_view why_chosen() const noexcept { return {}; }
  /// The identity of this group. Local.
  [[nodiscard]] virtual GroupIdentity identity() const = 0;
  /// Whether any thread may call the backend at any time, as with MPI_THREAD_MULTIPLE.
  [[nodiscard]] virtual bool has_free_threads() const noexcept = 0;
  /// Whether the calling thread may call the backend.
  [[nodiscard]] virtual bool this_thread_may_call() const = 0;

  /// Sends a copy of `message`, which has at most `most_message_bytes` bytes, to `target`. The transport keeps the copy
  /// until it has left this rank.
  virtual void post(int target, std::span<const std::byte> message) = 0;
  /// The same as `post`, for the last message of this rank to `target`.
  virtual void post_last(int target, std::span<const std::byte> message) { post(target, message); }
  /// Whether all messages to other nodes have left this rank. The targets can then receive them even if this rank makes
  /// no further call. Messages inside a node leave at once, unless shared memory is full.
  [[nodiscard]] virtual bool all_posted_left() { return true; }
  /// Says that each of `sources` will send a last message to this rank; a rank that is there twice, two of them. Until
  /// these messages have arrived, `close` keeps the resources of the backend by which they are received.
  virtual void expect_last_messages(std::span<const int> sources) noexcept { static_cast<void>(sources); }
  /// The next message from any rank; none if no message has arrived.
  [[nodiscard]] virtual std::optional<ReceivedMessage> poll() = 0;

  /// Whether `sleep` can be called: no rank of this node tells this one anything through shared memory.
  [[nodiscard]] virtual bool can_sleep() const noexcept { return false; }
  /// Waits, without using the processor, until something has come from another rank that no thread has received yet,
  /// and for about `time` at most. Thread-safe while the endpoint exists; called without the engine's lock.
  virtual void sleep(std::chrono::microseconds time) const { static_cast<void>(time); }

  /// Whether the backend still works: false after MPI has been finalized, or after this endpoint has been closed.
  [[nodiscard]] virtual bool is_alive() const = 0;
  /// Frees the resources that must be freed before the backend is finalized. After this call, only `is_alive` and the
  /// destructor are called.
  virtual void close() noexcept {}
  /// From now on, a new transfer is matched only with a transfer that the other side starts in the same epoch. So data
  /// that a failed operation has sent, and that no rank has received, is not taken for data of a later operation.
  /// `has_stale_transfers` is false if there is no such data for this rank.
  virtual void enter_epoch(std::uint64_t epoch, bool has_stale_transfers) = 0;

  /// Starts to send `data`, of any size, to `target`. `data` must stay unchanged and alive until `test` returns true.
  [[nodiscard]] virtual Transfer send(int target, std::span<const std::byte> data) = 0;
  /// Starts to receive exactly `data.size()` bytes from `source` into `data`.
  [[nodiscard]] virtual Transfer receive(int source, std::span<std::byte> data) = 0;
  /// Start transfers aside. Such a transfer concerns two ranks only, is independent of epochs, and is matched only with
  /// other transfers aside.
  [[nodiscard]] virtual Transfer send_aside(int target, std::span<const std::byte> data) = 0;
  [[nodiscard]] virtual Transfer receive_aside(int source, std::span<std::byte> data) = 0;
  /// Whether there are transfers by number, below.
  [[nodiscard]] virtual bool has_transfers_by_number() const noexcept { return false; }
  /// Start transfers aside that are matched by `number`, which the caller uses once for each source and target. The
  /// send must start after the receive. If one of both ranks has abandoned its transfer, that of the other one never
  /// completes if it is the receive, and completes if it is the send. Their memory is free as soon as they are
  /// abandoned.
  [[nodiscard]] virtual Transfer send_by_number(int target, std::int64_t number, std::span<const std::byte> data) {
    static_cast<void>(number);
    return send_aside(target, data);
  }
  [[nodiscard]] virtual Transfer receive_by_number(int source, std::int64_t number, std::span<std::byte> data) {
    static_cast<void>(number);
    return receive_aside(source, data);
  }
  /// Whether the transfer is complete. If it is, its number is free again. Throws Error(unavailable) if the backend
  /// reports a fault.
  [[nodiscard]] virtual bool test(Transfer transfer) = 0;
  /// Tests each of `transfers`, as `test` does, and appends the indices of the complete transfers to `complete`, in
  /// ascending order. If it throws, `complete` contains every transfer whose number is free again. A backend overrides
  /// this function if it can test many transfers at the cost of one.
  virtual void test_some(std::span<const Transfer> transfers, std::vector<std::size_t>& complete) {
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (test(transfers[i])) complete.push_back(i);
    }
  }

  [[nodiscard]] virtual TransferCount count() const noexcept = 0;

  /// Whether `start_native_all_reduce` supports `dtype`.
  [[nodiscard]] virtual bool has_native_all_reduce(DType dtype) const noexcept = 0;
  /// Starts the backend's all-reduce of one buffer per rank, in place. The backend chooses the order of the additions.
  /// For ReduceOp::mean, the result is the sum. All ranks start their native all-reduces in the same order.
  [[nodiscard]] virtual Transfer start_native_all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;

  /// Called when the operation of `transfers` has failed: the caller will not test them any more. Receives are
  /// cancelled, except for receives aside, which still take their messages. `memory`, which the transfers use, is freed
  /// when all of them are complete. A send without a matching receive is also completed, after its target has entered a
  /// later epoch.
  virtual void abandon(std::span<const Transfer> transfers, std::vector<Buffer>&& memory) noexcept = 0;
  /// Leaks `memory`, because a transfer that will never complete may still access it until the process ends.
  virtual void quarantine(Buffer&& memory) noexcept = 0;

  /// Begins to make groups from ranks of this group. Local.
  [[nodiscard]] virtual std::unique_ptr<NewGroup> begin_group() = 0;
};

}  // namespace lockstep::detail
