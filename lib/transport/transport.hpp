// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Movement of bytes and signals between the ranks of one group. The layers above decide what is moved and when.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include "base/process.hpp"
#include "transport/buffer.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep::detail {

/// The most bytes of a message.
inline constexpr std::size_t most_message_bytes = std::size_t{65} << 10;

struct ReceivedMessage {
  int source = -1;
  std::span<const std::byte> bytes;  ///< until the next call of `poll`
};

/// Tells a group from all others, equally on all its ranks.
struct GroupIdentity {
  std::uint64_t number = 0;
  std::vector<int> job_ranks;  ///< ranks in MPI_COMM_WORLD, by rank; empty for threads of one process
};

/// The number of a transfer in progress; numbers of completed transfers are reused.
enum class Transfer : std::int32_t {};

/// What the transfers of a rank have moved, those aside excepted.
struct TransferCount {
  std::uint64_t completed = 0;  ///< pieces of transfers that are complete; never shrinks
  // of the transfers that were started since none was under way
  std::uint64_t moved_bytes = 0;
  std::uint64_t started_bytes = 0;
};

class Transport;

/// What a rank tells the other ranks when a group is made; sent as bytes.
struct Introduction {
  std::uint64_t number = 0;      ///< greater than the numbers of all groups that this rank has been in
  std::uint64_t duplicates = 0;  ///< number of MPI communicators that this rank has begun to make from the parent
  std::int32_t leader =
      -1;  ///< of this rank's node, as a rank of the job; -1 if not known. Unused if there is a parent
  ProcessId process;
  NodeIntroduction node;
};
static_assert(std::is_trivially_copyable_v<Introduction>);

/// Whether a rank can make the group as its introduction and those of the others say.
struct Vote {
  std::uint8_t shares_memory = 1;  ///< has mapped the memory of all members of its node
  std::uint8_t has_tags = 1;       ///< the tags of the group are free
};

/// New groups in the making, of ranks of one group, the parent. The caller carries the data between the ranks, with
/// its deadline. All ranks of the parent take these steps:
///   1. exchange `introduction`, then `join`;
///   2. if `needs_context`: `start_context`, then `test_context` until it returns true;
///   3. exchange `vote`, then `accept`, until that returns true;
///   4. `take`.
/// No function waits. It may be destroyed at any step: memory that MPI or other ranks may access is leaked. Not
/// thread-safe; steps 1 and 2 are called under the lock of the parent's engine.
class NewGroup {
 public:
  NewGroup() = default;
  NewGroup(const NewGroup&) = delete;
  NewGroup& operator=(const NewGroup&) = delete;
  virtual ~NewGroup() = default;

  [[nodiscard]] virtual Introduction introduction() const = 0;
  /// `all`: the introductions by rank of the parent. `members`: the ranks of the parent in this rank's group, in the
  /// order of their new ranks; empty if this rank joins no group. Groups that are made together have no rank in common.
  virtual void join(std::span<const Introduction> all, std::span<const int> members) = 0;
  /// Whether the backend makes a context by a collective of its own; the same on all ranks.
  [[nodiscard]] virtual bool needs_context() const noexcept = 0;
  /// Collective over the parent.
  virtual void start_context() = 0;
  [[nodiscard]] virtual bool test_context() = 0;
  /// The context will not be tested any more.
  virtual void abandon_context() noexcept = 0;
  [[nodiscard]] virtual Vote vote() = 0;
  /// `votes` by rank of the parent. Returns false, on all ranks, if the ranks must vote again. Throws
  /// Error(unavailable), on all ranks, if the group cannot be made.
  [[nodiscard]] virtual bool accept(std::span<const Vote> votes) = 0;
  /// Null if this rank joins no group.
  [[nodiscard]] virtual std::unique_ptr<Transport> take() = 0;
};

/// One rank's end of a group. Not thread-safe: the engine calls it under its lock. No function waits.
///
/// Messages from one rank to another arrive in order. Transfers between a pair of ranks are matched in the order in
/// which both sides started them. Messages and transfers do not overtake or delay each other.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual int nodes() const noexcept = 0;
  /// Number of ranks that share memory with this one, itself included.
  [[nodiscard]] virtual int ranks_on_node() const noexcept = 0;
  /// For every rank, the lowest rank that shares memory with it; the same on all ranks.
  [[nodiscard]] virtual std::span<const int> node_leaders() const noexcept = 0;
  /// The process of each rank of this rank's node, by rank; unknown for other ranks. Empty if ranks are threads.
  [[nodiscard]] virtual std::span<const ProcessId> processes() const noexcept { return {}; }
  /// The ranks that are known to end their part of the job without ever having made their end of this group.
  [[nodiscard]] virtual std::span<const int> absent_ranks() { return {}; }
  /// The memory that all ranks share, if they are on one node and can access each other's memory; null otherwise.
  [[nodiscard]] virtual NodeGroup* node_group() noexcept = 0;
  /// In a job of several nodes: the memory that the ranks of this rank's node share, in the order of their ranks; if
  /// the node has one rank, that rank is alone in it. Null on all ranks in a job of one node, and if any two ranks of
  /// any node cannot access each other's memory.
  [[nodiscard]] virtual NodeGroup* local_group() noexcept = 0;
  /// The name of the backend: "mpi", "threads".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Local.
  [[nodiscard]] virtual GroupIdentity identity() const = 0;
  /// Whether any thread may call, as opposed to only the one that MPI calls main; and whether the calling thread may.
  [[nodiscard]] virtual bool has_free_threads() const noexcept = 0;
  [[nodiscard]] virtual bool this_thread_may_call() const = 0;

  /// Sends `message` of at most `most_message_bytes` bytes to `target`; the transport keeps a copy until it has left.
  virtual void post(int target, std::span<const std::byte> message) = 0;
  /// As `post`: the last message of this rank to `target`.
  virtual void post_last(int target, std::span<const std::byte> message) { post(target, message); }
  /// Whether all messages have left this rank: the others can receive them even if this rank does not call any more.
  [[nodiscard]] virtual bool all_posted_left() { return true; }
  /// `count` ranks send this one a last message: until they have arrived, `close` keeps what they need.
  virtual void expect_last_messages(int count) noexcept { static_cast<void>(count); }
  /// The next message from any rank, if one has arrived.
  [[nodiscard]] virtual std::optional<ReceivedMessage> poll() = 0;

  /// Whether the backend still works: false once MPI is finalised, or this end is closed.
  [[nodiscard]] virtual bool is_alive() const = 0;
  /// Frees what the backend must free before it is finalised. From then on only `is_alive` and the destructor are
  /// called.
  virtual void close() noexcept {}
  /// Transfers that are started from now on are matched only with those that the other side starts in the same epoch:
  /// data of a failed operation that was never received is not taken for data of a later one.
  virtual void enter_epoch(std::uint64_t epoch) = 0;

  /// Starts to send `data`, any number of bytes, which must stay unchanged and alive until `test` returns true.
  [[nodiscard]] virtual Transfer send(int target, std::span<const std::byte> data) = 0;
  /// Starts to receive exactly `data.size()` bytes into `data`.
  [[nodiscard]] virtual Transfer receive(int source, std::span<std::byte> data) = 0;
  /// The same for transfers aside: between two ranks alone, independent of epochs, and matched separately from the
  /// others.
  [[nodiscard]] virtual Transfer send_aside(int target, std::span<const std::byte> data) = 0;
  [[nodiscard]] virtual Transfer receive_aside(int source, std::span<std::byte> data) = 0;
  /// Whether the transfer is complete; its number is then free again. Throws Error(unavailable) if the backend reports
  /// a fault.
  [[nodiscard]] virtual bool test(Transfer transfer) = 0;
  /// As `test` of each of `transfers`; a backend overrides it if it can test many at the cost of one. Appends the
  /// indices of those that are complete to `complete`, in ascending order. If it throws, all whose numbers are free by
  /// then are in there.
  virtual void test_some(std::span<const Transfer> transfers, std::vector<std::size_t>& complete) {
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (test(transfers[i])) complete.push_back(i);
    }
  }

  [[nodiscard]] virtual TransferCount count() const noexcept = 0;

  /// Whether `start_native_all_reduce` supports this type.
  [[nodiscard]] virtual bool has_native_all_reduce(DType dtype) const noexcept = 0;
  /// Starts the backend's own all-reduce (sum, min, ...) of one buffer per rank, in place, in the backend's order of
  /// additions. A mean is only summed. All ranks start these in the same order.
  [[nodiscard]] virtual Transfer start_native_all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;

  /// The transfers will not be tested any more, since their operation has failed. Receives are cancelled, those aside
  /// excepted: they still take the messages that are meant for them. `memory`, which the transfers use, is freed when
  /// they are complete: sends also complete without a receive on the other side, once that has entered a later epoch.
  virtual void abandon(std::span<const Transfer> transfers, std::vector<Buffer>&& memory) noexcept = 0;
  /// Leaks memory that a transfer which will never complete may still access: it is kept until the process ends.
  virtual void quarantine(Buffer&& memory) noexcept = 0;

  /// Begins to make groups of ranks of this group. Local.
  [[nodiscard]] virtual std::unique_ptr<NewGroup> begin_group() = 0;
};

}  // namespace lockstep::detail
