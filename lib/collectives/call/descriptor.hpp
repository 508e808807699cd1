// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The description of one call. The ranks compare their descriptions before any data is used.

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

/// Counts the merge_call calls that the replicas of a rank made in this epoch. The number of calls must be the same on
/// all ranks; the content of the calls may differ.
struct MergeCount {
  std::uint32_t calls = 0;   ///< number of calls; compared between ranks
  std::uint32_t in_run = 0;  ///< number of calls in the last run; only shown in errors
  std::uint64_t run = 0;     ///< number of the last run
};

/// Arguments of the library's caller that decide its result, but not the collective that computes the result, as text:
/// "axis 0". Compared between ranks.
struct CallerArguments {
  static constexpr std::size_t most_bytes = 64;

  std::uint64_t hash = 0;               ///< hash of the whole text; 0 if there are no arguments
  std::array<char, most_bytes> text{};  ///< for errors; truncated

  /// Adds further arguments, after a comma.
  void add(std::string_view arguments) noexcept;
};

/// Trivially copyable, because it is sent as bytes. Two ranks agree if their hashes are equal; the other members are
/// used for the text of errors.
struct Descriptor {
  static constexpr std::size_t name_bytes = 64;
  static constexpr std::size_t schedule_bytes = 16;
  static constexpr std::size_t rows_bytes = 32;
  static constexpr std::size_t file_bytes = 44;
  static constexpr std::size_t most_sections = 16;

  std::uint64_t hash = 0;
  OperationKind kind{};
  ReduceOp op = ReduceOp::sum;
  Order order = Order::canonical;
  DType dtype = DType::f32;  ///< dtype of the first item
  std::int32_t root = -1;    ///< -1: none
  std::uint32_t items = 0;
  bool on_gpus = false;
  bool only_name = false;       ///< errors show the name instead of the kind and the tensors
  std::int64_t elements = 0;    ///< sum of the elements of all items
  std::int32_t shape_rank = 0;  ///< number of axes of the first item
  std::uint32_t listed = 0;     ///< length of the list that `sections` describes
  /// Hashes of equal sections of a list, to find where two lists differ: the numbers of rows on which the ranks must
  /// agree or, if there are none, the dtypes and shapes of all items.
  std::array<std::uint32_t, most_sections> sections{};
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::array<char, name_bytes> name{};                        ///< name in the options, truncated
  std::array<char, schedule_bytes> radices{};                 ///< radices that the environment requests, truncated
  std::array<char, rows_bytes> rows{};                        ///< numbers of rows by replica, truncated
  std::array<char, CallerArguments::most_bytes> arguments{};  ///< text of the CallerArguments
  MergeCount merges;                                          ///< count when the operation was posted
  std::int64_t completed_before = 0;    ///< operations that this rank had completed when the epoch began
  std::uint64_t history = 0;            ///< hash of their numbers by epoch, which the ranks compare
  bool is_recovery = false;             ///< if true, history is not compared
  std::uint32_t line = 0;               ///< line of this rank's call, not compared; 0: unknown
  std::array<char, file_bytes> file{};  ///< file of that line: the last two components of the path

  [[nodiscard]] constexpr const Traits& traits() const noexcept { return detail::traits(kind); }
};

/// Describes `call`, the dtypes and shapes of `items`, and numbers of rows on which the ranks must agree. `name` and
/// `only_name`: as in ReduceOptions.
[[nodiscard]] Descriptor make_descriptor(const Call& call, Order order, std::span<const HostItem> items,
                                         std::string_view name, bool only_name = false);

/// Adds `path`, the fingerprint of the path of the data, to the hash. So ranks disagree if some do not use GPUs, or if
/// their paths differ.
void add_gpus(Descriptor& descriptor, std::uint64_t path);

/// Adds the fingerprint of the schedule to the hash, so that ranks with different schedules disagree. `requested` has
/// the radices that the environment requests, for errors; it may be empty.
void add_schedule(Descriptor& descriptor, std::uint64_t fingerprint, std::string_view requested);

/// " at app/train.cpp:42"; empty if the line is in the library.
[[nodiscard]] std::string describe(const std::source_location& where);

/// Sets the line that `describe` shows as the place of the call.
void set_place(Descriptor& descriptor, const std::source_location& where) noexcept;

/// Combines `hash` with the facts that are known when the operation is posted: the number of merge_call calls before
/// it, the hash of the operations that this rank had completed before the epoch, and the hash of the caller's
/// arguments. The result is `hash` if all three are zero.
[[nodiscard]] constexpr std::uint64_t hash_after(std::uint64_t hash, const MergeCount& merges, std::uint64_t history,
                                                 std::uint64_t arguments) noexcept {
  return hash ^ (merges.calls * 0x9e3779b97f4a7c15u) ^ history ^ arguments;
}

/// The text "; before it, the replicas of rank 1 made 2 merge_call calls, ..." if the numbers of calls differ, else an
/// empty text.
[[nodiscard]] std::string difference_of_merges(int rank, const MergeCount& merges, int other_rank,
                                               const MergeCount& other);

/// The text "; a failure has left the ranks at different operations: ..." if the ranks have completed different
/// operations, or a text with the rule if only one rank calls recover; else an empty text. `advice` says what the
/// program can do; empty: to call Communicator::recover.
[[nodiscard]] std::string difference_of_positions(int rank, const Descriptor& descriptor, int other_rank,
                                                  const Descriptor& other, std::string_view advice);

/// The text "; the first difference is in tensor 17 (counted from 0)" if the ranks pass lists of equal length, and
/// `describe` does not show where they differ; else an empty text. A long list: a range of tensors.
[[nodiscard]] std::string difference_of_lists(const Descriptor& descriptor, const Descriptor& other);

/// Further parts of the text of a call: the tensors and radices of a call that has only_name, and an order that is
/// canonical.
struct Details {
  bool tensors = false;
  bool radices = false;
  bool order = false;
};

/// "all_reduce sum of f32 [3]", "broadcast of 4 tensors (first f32 [2, 3], 1024 elements in all) with root 1". If the
/// descriptor has only_name, the name, and further parts as `details` says: "split".
[[nodiscard]] std::string describe(const Descriptor& descriptor, Details details = {});

/// What two ranks do that make different calls: "rank 0 calls A, rank 1 calls B; ...".
[[nodiscard]] std::string describe_difference(int rank, const Descriptor& descriptor, int other_rank,
                                              const Descriptor& other);

/// The name of the operation in the context of errors: the name in the options or, if that is empty, the kind.
[[nodiscard]] std::string operation_name(const Descriptor& descriptor);

}  // namespace lockstep::detail
