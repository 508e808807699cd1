// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank says that it is about to do: compared between ranks before any data is used.

#pragma once

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/shape.hpp>

#include "collectives/call/call.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// Dtype and shape of one item, as all ranks must give them.
struct ItemSignature {
  DType dtype = DType::f32;
  Shape shape;
};

/// The merge_call calls of a rank's replicas since it last heard of a failure. What is done in them is the rank's own
/// affair, but how many there are is not.
struct MergeCount {
  std::uint32_t calls = 0;   ///< compared between ranks
  std::uint32_t in_run = 0;  ///< of these in the run of the last one; shown only
  std::uint64_t run = 0;     ///< that run's number
};

/// Trivially copyable: it travels as bytes. Two ranks agree when their hashes are equal; the rest is for the error's
/// text.
struct Descriptor {
  static constexpr std::size_t name_bytes = 40;
  static constexpr std::size_t schedule_bytes = 16;
  static constexpr std::size_t rows_bytes = 32;

  std::uint64_t hash = 0;
  OperationKind kind{};
  ReduceOp op = ReduceOp::sum;
  Order order = Order::canonical;
  DType dtype = DType::f32;  ///< of the first item
  std::int32_t root = -1;    ///< -1 where there is none
  std::uint32_t items = 0;
  bool on_gpus = false;
  std::int64_t elements = 0;    ///< of all items
  std::int32_t shape_rank = 0;  ///< of the first item
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::array<char, name_bytes> name{};         ///< the caller's, cut off
  std::array<char, schedule_bytes> radices{};  ///< that the environment demands, cut off
  std::array<char, rows_bytes> rows{};         ///< by replica, where they may differ, cut off
  MergeCount merges;                           ///< when the operation was posted

  [[nodiscard]] constexpr const Traits& traits() const noexcept { return detail::traits(kind); }
};

/// The numbers of rows are part of it if the ranks must agree on them.
[[nodiscard]] Descriptor make_descriptor(const Call& call, Order order, std::span<const ItemSignature> items,
                                         std::string_view name);

/// Makes ranks disagree that would not all work on GPUs, in one way. `way` tells one from another.
void add_gpus(Descriptor& descriptor, std::uint64_t way);

/// Makes ranks disagree that would not run the same schedule. `demanded` is shown, where somebody demands one.
void add_schedule(Descriptor& descriptor, std::uint64_t fingerprint, std::string_view demanded);

/// The hash of an operation that was posted after so many merge_call calls, `hash` being that of one after none.
[[nodiscard]] constexpr std::uint64_t hash_after(std::uint64_t hash, const MergeCount& merges) noexcept {
  return hash ^ (merges.calls * 0x9e3779b97f4a7c15u);
}

/// "; the replicas of rank 1 made 2 merge_call calls, ..." where the two differ in that, else nothing.
[[nodiscard]] std::string difference_of_merges(int rank, const MergeCount& merges, int other_rank,
                                               const MergeCount& other);

/// "all_reduce sum of f32 [3]", "broadcast from rank 1 of 4 tensors, first f32 [2, 3], 1024 elements".
[[nodiscard]] std::string describe(const Descriptor& descriptor);

/// The name that errors carry: the caller's, else the kind.
[[nodiscard]] std::string operation_name(const Descriptor& descriptor);

}  // namespace lockstep::detail
