// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the benchmark knows of each collective. A new one is an enumerator, a row of the table in collective.cpp, and a
// call in each of our_call.cpp and mpi_call.cpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace perf {

enum class Collective : std::uint8_t {
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
  barrier
};

inline constexpr std::size_t collective_count = 13;

/// Elements of one input or one output.
enum class Length : std::uint8_t {
  none,
  whole,  ///< all of the row's
  part,   ///< the row's by the number of replicas; where the collective is uneven some have more, some less
};

/// Whose inputs, or outputs, there are.
enum class Holder : std::uint8_t { every_rank, root };

/// What an output must hold.
enum class Expected : std::uint8_t {
  nothing,
  reduction,
  own_part_of_reduction,
  all_inputs,
  root_input,
  own_part_of_root_input,
  own_parts_of_inputs
};

struct Traits {
  std::string_view name;
  bool reduces;       ///< takes an op
  bool has_root;      ///< takes a root
  bool has_in_place;  ///< an output may be its input's memory
  bool is_uneven;     ///< parts have lengths of their own
  Length input;       ///< of each replica; with Holder::root, of the root's one input
  Holder input_holder;
  Length output;  ///< of each replica
  Holder output_holder;
  Expected expected;
  /// busbw / algbw for P ranks: the traffic that each rank must have at least, as nccl-tests defines it.
  double (*bus_factor)(double ranks);
};

[[nodiscard]] const Traits& traits(Collective collective) noexcept;

}  // namespace perf
