// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of one case: one placement of a line of the table, one object of the JSON file.

#pragma once

#include "bench/perf/case.hpp"
#include "bench/perf/interleaving.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace perf {

/// Identifies the call of a row. Rows of two runs with the same identity can be compared.
struct Identity {
  std::string_view collective;
  std::string list;  ///< name of the list; empty if the call is not of a list
  std::string mode;  ///< mode of a list
  std::string_view form;
  std::int64_t count = 0;
  std::string_view dtype;  ///< empty if the call has no data
  std::string_view op;     ///< empty if the collective does not reduce
  bool in_place = false;
  int replicas_per_rank = 1;

  /// Two rows with the same text belong to the same call.
  [[nodiscard]] std::string text() const;
  /// "all_reduce f32 sum"; "all_reduce f32 sum, async"
  [[nodiscard]] std::string name() const;
  /// The name with the list, the mode and the placement: "all_reduce of resnet50 f32 sum, one_plan, in place".
  [[nodiscard]] std::string full_name() const;
};

struct Row {
  Identity identity;
  std::int64_t tensors = 1;
  std::int64_t bytes = 0;
  int calls = 1;  ///< number of calls of one measurement
  int root = -1;  ///< -1: none
  double bus_factor = 1;
  Outcome ours;
  std::optional<Outcome> peer;
  std::string peer_name;  ///< "MPI"
  std::string peer_call;  ///< "f32 sum", "f32 sum, one_by_one"
  bool is_same_peer_call = true;
  std::optional<double> limit_us;
  std::optional<double> floor_us;  ///< time of a copy on the GPU with the least traffic of the call
  std::optional<double> baseline_us;
  std::optional<double> cache_line_before_us;
  std::optional<double> cache_line_after_us;

  [[nodiscard]] double time_us() const noexcept { return ours.times_us.p50; }
  /// time / the peer's time: below 1 is faster.
  [[nodiscard]] std::optional<double> ratio() const;
  [[nodiscard]] std::optional<double> baseline_ratio() const;
  /// limit / time: 1 is at the limit.
  [[nodiscard]] std::optional<double> of_limit() const;
  [[nodiscard]] std::optional<double> of_hbm() const;
  /// Bytes of one replica in all calls per time, in 10^9 bytes per second.
  [[nodiscard]] double algorithm_gbs() const noexcept;
  /// algbw scaled by the bytes that each rank must send or receive, so that it compares with the bandwidth of links and
  /// memory for every P.
  [[nodiscard]] double bus_gbs() const noexcept { return algorithm_gbs() * bus_factor; }
  [[nodiscard]] bool is_right() const noexcept;
  [[nodiscard]] bool cache_line_has_changed() const noexcept;
};

/// Whether the round trip of a cache line differs by more than two times before and after the row: then the row belongs
/// to two states of the machine. False if one of them was not measured.
[[nodiscard]] bool cache_line_differs(std::optional<double> before_us, std::optional<double> after_us) noexcept;

/// The row as an object without nesting; values that were not measured are null.
[[nodiscard]] nlohmann::ordered_json to_json(const Row& row, const Options& options);

}  // namespace perf
