// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What came of one case: a half of a line of the table, an object of the JSON file.

#pragma once

#include "case.hpp"
#include "turns.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace perf {

/// Which call a row is of. Rows of two runs with the same identity can be compared.
struct Identity {
  std::string_view collective;
  std::string list;  ///< empty when it is no list
  std::string mode;  ///< of a list
  std::int64_t count = 0;
  std::string_view dtype;  ///< empty for barrier
  std::string_view op;     ///< empty where nothing is reduced
  bool in_place = false;
  int replicas_per_rank = 1;

  /// Two rows with the same text are of the same call.
  [[nodiscard]] std::string text() const;
  /// "all_reduce f32 sum"
  [[nodiscard]] std::string name() const;
};

struct Row {
  Identity identity;
  std::int64_t tensors = 1;
  std::int64_t bytes = 0;
  int root = -1;  ///< -1: none
  double bus_factor = 1;
  Outcome ours;
  std::optional<Outcome> peer;
  std::string peer_name;  ///< "MPI"
  std::string peer_call;  ///< "f32 sum", "f32 sum, one_by_one"
  bool is_same_peer_call = true;
  std::optional<double> limit_us;
  std::optional<double> floor_us;  ///< what the call must move through a GPU's memory, at the speed of a copy there
  std::optional<double> baseline_us;
  std::optional<double> cache_line_before_us;
  std::optional<double> cache_line_after_us;

  [[nodiscard]] double time_us() const noexcept { return ours.times_us.p50; }
  /// time / the other's time: below 1 is faster.
  [[nodiscard]] std::optional<double> ratio() const;
  [[nodiscard]] std::optional<double> baseline_ratio() const;
  /// The limit's time / time: 1 is at the limit.
  [[nodiscard]] std::optional<double> of_limit() const;
  [[nodiscard]] std::optional<double> of_hbm() const;
  /// Bytes of one replica per time, in 10^9 bytes per second.
  [[nodiscard]] double algorithm_gbs() const noexcept;
  /// algbw scaled by the bytes that each rank must send or get, so that it compares with what wires and memory can do,
  /// whatever P.
  [[nodiscard]] double bus_gbs() const noexcept { return algorithm_gbs() * bus_factor; }
  [[nodiscard]] bool is_right() const noexcept;
  [[nodiscard]] bool cache_line_has_changed() const noexcept;
};

/// Whether the way between two cores took more than twice as long the one time as the other: then what was measured in
/// between is of two states of the machine. False where one was not measured.
[[nodiscard]] bool cache_line_differs(std::optional<double> before_us, std::optional<double> after_us) noexcept;

/// The row as an object without nesting; what was not measured is null.
[[nodiscard]] nlohmann::ordered_json to_json(const Row& row, const Options& options);

/// The identity of a row that to_json() made; throws nlohmann::json::exception where it is none.
[[nodiscard]] std::string identity_text(const nlohmann::ordered_json& row);

}  // namespace perf
