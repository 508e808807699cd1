// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Movement of bytes and signals between the ranks of one group. The layers above decide what is moved and when.

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

/// The number of a transfer in progress; numbers of completed transfers are reused.
enum class Transfer : std::int32_t {};

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
  /// The memory that all ranks share, if they are on one node and can access each other's memory; null otherwise.
  [[nodiscard]] virtual NodeGroup* node_group() noexcept = 0;
  /// In a job of several nodes: the memory that the ranks of this rank's node share, in the order of their ranks; if
  /// the node has one rank, that rank is alone in it. Null on all ranks in a job of one node, and if any two ranks of
  /// any node cannot access each other's memory.
  [[nodiscard]] virtual NodeGroup* local_group() noexcept = 0;
  /// The name of the backend: "mpi", "threads".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Whether any thread may call, as opposed to only the one that MPI calls main; and whether the calling thread may.
  [[nodiscard]] virtual bool has_free_threads() const noexcept = 0;
  [[nodiscard]] virtual bool this_thread_may_call() const = 0;

  /// Sends `message` to `target`; the transport keeps a copy until it has left.
  virtual void post(int target, const Message& message) = 0;
  /// The next message from any rank, if one has arrived.
  [[nodiscard]] virtual std::optional<ReceivedMessage> poll() = 0;

  /// Whether the backend still works: false once MPI is finalised.
  [[nodiscard]] virtual bool is_alive() const = 0;
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

  /// Whether `start_native_all_reduce` supports this type.
  [[nodiscard]] virtual bool has_native_all_reduce(DType dtype) const noexcept = 0;
  /// Starts the backend's own all-reduce (sum, min, ...) of one buffer per rank, in place, in the backend's order of
  /// additions. A mean is only summed. All ranks start these in the same order.
  [[nodiscard]] virtual Transfer start_native_all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;

  /// Leaks memory that a transfer which will never complete may still access: it is kept until the process ends.
  virtual void quarantine(Buffer&& memory) noexcept = 0;

  /// A group of `members`, ranks of this group in the order of their new ranks, this rank among them; null if `members`
  /// is empty. Groups that are made together have no rank in common. Collective over this group, including ranks that
  /// join no new group.
  [[nodiscard]] virtual std::unique_ptr<Transport> split(std::span<const int> members) = 0;

  /// Another group over the same ranks. Collective.
  [[nodiscard]] virtual std::unique_ptr<Transport> duplicate() = 0;
};

}  // namespace lockstep::detail
