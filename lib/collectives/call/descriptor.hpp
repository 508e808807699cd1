// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The description of one call, which ranks compare before any data is used.

#pragma once

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/shape.hpp>

#include "collectives/call/call.hpp"
#include "collectives/call/host_item.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// The merge_call calls of the replicas of a rank in this epoch. Their number must be the same on all ranks; their
/// content need not.
struct MergeCount {
  std::uint32_t calls = 0;   ///< compared between ranks
  std::uint32_t in_run = 0;  ///< calls of the last run; shown only
  std::uint64_t run = 0;     ///< number of the last run
};

/// Trivially copyable: it is sent as bytes. Two ranks agree if their hashes are equal; the rest is for the text of
/// errors.
struct Descriptor {
  static constexpr std::size_t name_bytes = 40;
  static constexpr std::size_t schedule_bytes = 16;
  static constexpr std::size_t rows_bytes = 32;
  static constexpr std::size_t file_bytes = 44;

  std::uint64_t hash = 0;
  OperationKind kind{};
  ReduceOp op = ReduceOp::sum;
  Order order = Order::canonical;
  DType dtype = DType::f32;  ///< of the first item
  std::int32_t root = -1;    ///< -1: none
  std::uint32_t items = 0;
  bool on_gpus = false;
  std::int64_t elements = 0;    ///< sum over all items
  std::int32_t shape_rank = 0;  ///< of the first item
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::array<char, name_bytes> name{};         ///< name in the options, truncated
  std::array<char, schedule_bytes> radices{};  ///< radices that the environment requests, truncated
  std::array<char, rows_bytes> rows{};         ///< numbers of rows by replica, truncated
  MergeCount merges;                           ///< count when the operation was posted
  std::int64_t completed_before = 0;           ///< operations that this rank had completed when the epoch began
  bool is_recovery = false;                    ///< that number is not compared
  std::uint32_t line = 0;                      ///< of this rank's call; 0: unknown. It is not compared
  std::array<char, file_bytes> file{};         ///< the last two components of its path

  [[nodiscard]] constexpr const Traits& traits() const noexcept { return detail::traits(kind); }
};

/// Describes the dtypes and shapes of `items`, and the numbers of rows if the ranks must agree on them.
[[nodiscard]] Descriptor make_descriptor(const Call& call, Order order, std::span<const HostItem> items,
                                         std::string_view name);

/// Makes ranks disagree if they would not all work on GPUs by one path. `path` is its fingerprint.
void add_gpus(Descriptor& descriptor, std::uint64_t path);

/// Makes ranks disagree if they would not run the same schedule. `requested` is shown if it is not empty.
void add_schedule(Descriptor& descriptor, std::uint64_t fingerprint, std::string_view requested);

/// " at app/train.cpp:42"; empty for a line of the library.
[[nodiscard]] std::string describe(const std::source_location& where);

/// The line that `describe` shows as the place of the call.
void set_place(Descriptor& descriptor, const std::source_location& where) noexcept;

/// The hash of an operation that was posted after `merges`, in an epoch before which this rank had completed
/// `completed_before` operations; `hash` is its hash if both are zero.
[[nodiscard]] constexpr std::uint64_t hash_after(std::uint64_t hash, const MergeCount& merges,
                                                 std::int64_t completed_before) noexcept {
  return hash ^ (merges.calls * 0x9e3779b97f4a7c15u) ^
         (static_cast<std::uint64_t>(completed_before) * 0xd1342543de82ef95u);
}

/// "; the replicas of rank 1 made 2 merge_call calls, ..." if the numbers differ, else empty.
[[nodiscard]] std::string difference_of_merges(int rank, const MergeCount& merges, int other_rank,
                                               const MergeCount& other);

/// "; a failure has left the ranks at different operations: ..." if the numbers of completed operations differ, else
/// empty.
[[nodiscard]] std::string difference_of_positions(int rank, const Descriptor& descriptor, int other_rank,
                                                  const Descriptor& other);

/// "all_reduce sum of f32 [3]", "broadcast from rank 1 of 4 tensors, first f32 [2, 3], 1024 elements".
[[nodiscard]] std::string describe(const Descriptor& descriptor);

/// The name in the context of errors: the name in the options, else the kind.
[[nodiscard]] std::string operation_name(const Descriptor& descriptor);

}  // namespace lockstep::detail
