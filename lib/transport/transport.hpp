// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes and signals between the ranks of one group. An implementation moves; what is moved and when is decided above.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include "transport/buffer.hpp"
#include "transport/shm/node_group.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::detail {

/// A small message of fixed size.
inline constexpr std::size_t message_bytes = 1152;
using Message = std::array<std::byte, message_bytes>;

struct ReceivedMessage {
  int source = -1;
  Message message;
};

/// A transfer under way, by number; numbers of completed transfers are used again.
enum class Transfer : std::int32_t {};

/// One rank's end of a group. Not thread-safe: the engine calls under its lock. Nothing here waits.
///
/// Messages from one rank to another arrive in order; so do transfers between a pair, matched in the order in which
/// both sides started them. Messages and transfers do not overtake or delay one another.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  [[nodiscard]] virtual int nodes() const noexcept = 0;
  /// Ranks that share memory with this one, itself included.
  [[nodiscard]] virtual int ranks_on_node() const noexcept = 0;
  /// For every rank the lowest rank that shares memory with it; the same on all ranks.
  [[nodiscard]] virtual std::span<const int> node_leaders() const noexcept = 0;
  /// What the ranks share when all live on one node and can see each other's memory; null otherwise.
  [[nodiscard]] virtual NodeGroup* node_group() noexcept = 0;
  /// In a job of several nodes what the ranks of this one's node share, in the order of their ranks; on a node of one
  /// rank that rank is alone in it. Null on all ranks in a job of one node, and where any two ranks of some node cannot
  /// see each other's memory.
  [[nodiscard]] virtual NodeGroup* local_group() noexcept = 0;
  /// "mpi", "threads".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Whether any thread may call, or only the one that MPI calls main; and whether the calling one may.
  [[nodiscard]] virtual bool has_free_threads() const noexcept = 0;
  [[nodiscard]] virtual bool this_thread_may_call() const = 0;

  /// Sends `message` to `target`; the transport keeps a copy until it has left.
  virtual void post(int target, const Message& message) = 0;
  /// The next message from anybody, if one has arrived.
  [[nodiscard]] virtual std::optional<ReceivedMessage> poll() = 0;

  /// Whether the backend still works: false once MPI is finalised.
  [[nodiscard]] virtual bool is_alive() const = 0;
  /// Transfers started from now on meet only those that the other side starts in the same epoch: data of a failed
  /// operation that nobody took is never taken for that of a later one.
  virtual void enter_epoch(std::uint64_t epoch) = 0;

  /// Starts to send `data`, which stays untouched and alive until `test` says that it has left. Any number of bytes.
  [[nodiscard]] virtual Transfer send(int target, std::span<const std::byte> data) = 0;
  /// Starts to receive exactly `data.size()` bytes into `data`.
  [[nodiscard]] virtual Transfer receive(int source, std::span<std::byte> data) = 0;
  /// The same for messages between two ranks alone: of no epoch, and matched apart from the others.
  [[nodiscard]] virtual Transfer send_aside(int target, std::span<const std::byte> data) = 0;
  [[nodiscard]] virtual Transfer receive_aside(int source, std::span<std::byte> data) = 0;
  /// Whether the transfer is complete; its number is then free again. Throws Error(unavailable) when the backend
  /// reports a fault.
  [[nodiscard]] virtual bool test(Transfer transfer) = 0;

  /// Whether `start_native_all_reduce` can serve this type.
  [[nodiscard]] virtual bool has_native_all_reduce(DType dtype) const noexcept = 0;
  /// Hands the sum (min, ...) of one buffer per rank, in place, to the backend's own all-reduce, in whatever order that
  /// adds. A mean is summed only. All ranks start these in the same order.
  [[nodiscard]] virtual Transfer start_native_all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;

  /// Takes care of memory that a transfer which will never complete may still touch: kept until the process ends.
  virtual void quarantine(Buffer&& memory) noexcept = 0;

  /// A group of `members`, ranks of this group in the order of their new ranks, this one among them; null when there
  /// are none. Groups that are made together have no rank in common. Collective over this group, also for those who are
  /// in none.
  [[nodiscard]] virtual std::unique_ptr<Transport> split(std::span<const int> members) = 0;

  /// Another group over the same ranks. Collective.
  [[nodiscard]] virtual std::unique_ptr<Transport> duplicate() = 0;
};

}  // namespace lockstep::detail
