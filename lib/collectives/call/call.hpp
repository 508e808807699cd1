// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kinds of operations, a table with the properties of each kind, and the description of one call. Code that depends
// on the kind reads `traits`. A new collective needs a row in the table, a factory in Call, and an operation.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::detail {

enum class OperationKind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  all_gather_v,
  gather,
  gather_v,
  scatter,
  scatter_v,
  all_to_all,
  all_to_all_v,
  broadcast,
  barrier,
  send,
  recv
};

/// The pattern in which the data moves.
enum class Pattern : std::uint8_t {
  reduction,
  gather,      ///< the replicas' tensors, one after the other
  scatter,     ///< parts of one tensor
  all_to_all,  ///< parts of every replica's tensor
  broadcast,
  barrier,
  message,  ///< between two ranks; Call::root is the other rank
};

/// The ranks or replicas that have the inputs, or the outputs, of an item.
enum class Place : std::uint8_t {
  none,
  root,      ///< the root only
  ranks,     ///< every rank; all tensors of one rank have the same content
  replicas,  ///< every replica; each replica has its own tensor
};

/// The lists of numbers of rows that the ranks pass, if these numbers may differ between replicas.
enum class Rows : std::uint8_t {
  none,
  agreed,  ///< all ranks pass equal lists, which are part of the fingerprint
  own,     ///< each rank passes its own list
};

/// The algorithm in the shared memory of a node; `none`: the data is sent by messages.
enum class NodeAlgorithm : std::uint8_t { none, reduce, copy };

/// The algorithm between GPUs; `none`: the data goes through host memory.
enum class GpuAlgorithm : std::uint8_t { none, fold, broadcast, all_gather, parts };

struct Traits {
  std::string_view name;
  Pattern pattern;
  Place inputs;
  Place outputs;
  Rows rows;
  NodeAlgorithm in_node;
  GpuAlgorithm on_gpus;

  [[nodiscard]] constexpr bool reduces() const noexcept { return pattern == Pattern::reduction; }
  [[nodiscard]] constexpr bool gathers() const noexcept { return pattern == Pattern::gather; }
  [[nodiscard]] constexpr bool scatters() const noexcept { return pattern == Pattern::scatter; }
  [[nodiscard]] constexpr bool is_all_to_all() const noexcept { return pattern == Pattern::all_to_all; }
  [[nodiscard]] constexpr bool is_message() const noexcept { return pattern == Pattern::message; }
  [[nodiscard]] constexpr bool has_root() const noexcept { return inputs == Place::root || outputs == Place::root; }
  [[nodiscard]] constexpr bool has_rows() const noexcept { return rows != Rows::none; }
  /// Whether each replica has a different output, so that no two outputs may be the same view.
  [[nodiscard]] constexpr bool has_own_outputs() const noexcept { return outputs == Place::replicas; }
  /// Whether each replica has one part of a larger tensor: its input is a part of the result of a gather, or its output
  /// is a part of the input of a scatter, or as large as a part of the inputs of a reduce_scatter.
  [[nodiscard]] constexpr bool has_own_parts() const noexcept {
    return gathers() || scatters() || (reduces() && has_own_outputs());
  }
  /// Whether inputs are cut into R parts, one for each of the R replicas.
  [[nodiscard]] constexpr bool has_parts() const noexcept { return scatters() || is_all_to_all(); }
  /// Whether LOCKSTEP_RADICES determines the schedule at every size. The same kinds can use the reductions of MPI and
  /// NCCL, which add in an order of their own.
  [[nodiscard]] constexpr bool has_schedules() const noexcept { return reduces() && outputs == Place::ranks; }
};

namespace rows_of_kinds {

using enum Place;

// In the order of OperationKind.
// clang-format off
inline constexpr std::array table = {
    //     name            pattern              inputs    outputs   rows          in a node         on GPUs
    Traits{"all_reduce",     Pattern::reduction,  replicas, ranks,    Rows::none,   NodeAlgorithm::reduce, GpuAlgorithm::fold},
    Traits{"reduce",         Pattern::reduction,  replicas, root,     Rows::none,   NodeAlgorithm::reduce, GpuAlgorithm::fold},
    Traits{"reduce_scatter", Pattern::reduction,  replicas, replicas, Rows::none,   NodeAlgorithm::reduce, GpuAlgorithm::fold},
    Traits{"all_gather",     Pattern::gather,     replicas, ranks,    Rows::none,   NodeAlgorithm::copy,   GpuAlgorithm::all_gather},
    Traits{"all_gather_v",   Pattern::gather,     replicas, ranks,    Rows::agreed, NodeAlgorithm::none,   GpuAlgorithm::parts},
    Traits{"gather",         Pattern::gather,     replicas, root,     Rows::none,   NodeAlgorithm::copy,   GpuAlgorithm::parts},
    Traits{"gather_v",       Pattern::gather,     replicas, root,     Rows::agreed, NodeAlgorithm::none,   GpuAlgorithm::parts},
    Traits{"scatter",        Pattern::scatter,    root,     replicas, Rows::none,   NodeAlgorithm::none,   GpuAlgorithm::parts},
    Traits{"scatter_v",      Pattern::scatter,    root,     replicas, Rows::agreed, NodeAlgorithm::none,   GpuAlgorithm::parts},
    Traits{"all_to_all",     Pattern::all_to_all, replicas, replicas, Rows::none,   NodeAlgorithm::none,   GpuAlgorithm::parts},
    Traits{"all_to_all_v",   Pattern::all_to_all, replicas, replicas, Rows::own,    NodeAlgorithm::none,   GpuAlgorithm::parts},
    Traits{"broadcast",      Pattern::broadcast,  root,     ranks,    Rows::none,   NodeAlgorithm::copy,   GpuAlgorithm::broadcast},
    Traits{"barrier",        Pattern::barrier,    none,     none,     Rows::none,   NodeAlgorithm::copy,   GpuAlgorithm::none},
    Traits{"send",           Pattern::message,    ranks,    none,     Rows::none,   NodeAlgorithm::none,   GpuAlgorithm::none},
    Traits{"recv",           Pattern::message,    none,     ranks,    Rows::none,   NodeAlgorithm::none,   GpuAlgorithm::none},
};
// clang-format on
static_assert(table.size() == static_cast<std::size_t>(OperationKind::recv) + 1);

}  // namespace rows_of_kinds

[[nodiscard]] constexpr const Traits& traits(OperationKind kind) noexcept {
  return rows_of_kinds::table[static_cast<std::size_t>(kind)];
}

[[nodiscard]] constexpr std::string_view to_string(OperationKind kind) noexcept { return traits(kind).name; }

/// One call of an operation, without its items.
struct Call {
  using RowList = std::span<const std::int64_t>;

  OperationKind kind = OperationKind::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = -1;              ///< the root, or the other rank of a message; -1: none
  RowList rows = {};          ///< numbers of rows by replica; in an all_to_all_v, the numbers of rows to send
  RowList receive_rows = {};  ///< only in an all_to_all_v: the numbers of rows to receive

  [[nodiscard]] constexpr const detail::Traits& traits() const noexcept { return detail::traits(kind); }
  [[nodiscard]] constexpr std::string_view name() const noexcept { return traits().name; }

  static constexpr Call all_reduce(ReduceOp op) { return {OperationKind::all_reduce, op}; }
  static constexpr Call reduce(ReduceOp op, int root) { return {OperationKind::reduce, op, root}; }
  static constexpr Call reduce_scatter(ReduceOp op) { return {OperationKind::reduce_scatter, op}; }
  static constexpr Call all_gather() { return {OperationKind::all_gather}; }
  static constexpr Call all_gather_v(RowList rows) { return {OperationKind::all_gather_v, {}, -1, rows}; }
  static constexpr Call gather(int root) { return {OperationKind::gather, {}, root}; }
  static constexpr Call gather_v(RowList rows, int root) { return {OperationKind::gather_v, {}, root, rows}; }
  static constexpr Call scatter(int root) { return {OperationKind::scatter, {}, root}; }
  static constexpr Call scatter_v(RowList rows, int root) { return {OperationKind::scatter_v, {}, root, rows}; }
  static constexpr Call all_to_all() { return {OperationKind::all_to_all}; }
  static constexpr Call all_to_all_v(RowList sent, RowList received) {
    return {OperationKind::all_to_all_v, {}, -1, sent, received};
  }
  static constexpr Call broadcast(int root) { return {OperationKind::broadcast, {}, root}; }
  static constexpr Call barrier() { return {OperationKind::barrier}; }
  static constexpr Call send(int target) { return {OperationKind::send, {}, target}; }
  static constexpr Call recv(int source) { return {OperationKind::recv, {}, source}; }
};

}  // namespace lockstep::detail
