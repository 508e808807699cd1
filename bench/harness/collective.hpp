// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The properties of each call that is measured: collectives, messages, and the creation of communicators. A new
// collective needs an enumerator, a row of the table in collective.cpp, and a call in each of perf/our_call.cpp and
// perf/mpi_call.cpp.

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
  barrier,
  send_recv,
  halo,
  duplicate,
  split,
  first_call
};

inline constexpr std::size_t collective_count = 18;

/// What a call does.
enum class Kind : std::uint8_t {
  collective,
  message,   ///< sends and receives, between the two ranks of a pair
  creation,  ///< creates a communicator, may use it once, and destroys it
};

/// How a call is made.
enum class Form : std::uint8_t {
  blocking,
  async,       ///< one asynchronous call, and its wait
  in_flight,   ///< several asynchronous calls, and then their waits
  loop,        ///< several blocking calls, one after the other
  async_loop,  ///< several asynchronous calls, each followed by its wait
};

inline constexpr std::size_t form_count = 5;

/// Number of calls of one measurement.
[[nodiscard]] constexpr int calls_of(Form form) noexcept {
  return form == Form::blocking || form == Form::async ? 1 : 16;
}
[[nodiscard]] std::string_view to_string(Form form) noexcept;

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
  own_parts_of_inputs,
  partner_input  ///< the input of the other rank of the pair
};

struct Traits {
  std::string_view name;
  Kind kind;
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

/// Whether the call has data, and rows of several sizes.
[[nodiscard]] inline bool has_sizes(Collective collective) noexcept {
  return traits(collective).output != Length::none;
}
/// Creation has no asynchronous call; a halo exchange, in which both ranks send at once, has no blocking one.
[[nodiscard]] bool has_form(Collective collective, Form form) noexcept;

}  // namespace perf
