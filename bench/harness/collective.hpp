// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The properties of each collective. A new one needs an enumerator, a row of the table in collective.cpp, and a call in
// each of perf/our_call.cpp and perf/mpi_call.cpp.

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
  whole,  ///< all elements of the benchmark row's size
  part,   ///< the size divided by the number of replicas; parts may differ if the collective is uneven
};

/// The ranks that have an input, or an output.
enum class Holder : std::uint8_t { every_rank, root };

/// The expected contents of an output.
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
  bool is_uneven;     ///< parts may differ in length
  Length input;       ///< length of each replica's input; with Holder::root, of the root's only input
  Holder input_holder;
  Length output;  ///< length of each replica's output
  Holder output_holder;
  Expected expected;
  /// busbw / algbw for P ranks: the minimum traffic of a rank per byte of data, as nccl-tests defines it.
  double (*bus_factor)(double ranks);
};

[[nodiscard]] const Traits& traits(Collective collective) noexcept;

}  // namespace perf
