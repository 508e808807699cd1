// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What rank 0 tells the user: nccl-tests' table with the environment above it, and the same as JSON.

#pragma once

#include "machine.hpp"
#include "measurement.hpp"
#include "options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <span>

namespace perf {

/// A case with what came of it; none where the case is not possible.
struct Measured {
  Case what;
  std::optional<Result> result;
};

/// algbw is bytes of one rank per time; busbw scales it by the bytes that each rank must send and get for the
/// collective, 2 (P-1)/P for all_reduce, so that it compares with what the wires can do, whatever P.
[[nodiscard]] double algorithm_gbs(const Case& what, double time_us) noexcept;
[[nodiscard]] double bus_gbs(const Case& what, double time_us, int ranks) noexcept;

/// Pinned. On ranks other than 0 nothing is ever printed or written.
class Report {
 public:
  /// Prints the header. `round_trip_us` is the cache line's, before the run.
  Report(const Options& options, const Machine& machine, std::optional<double> round_trip_us, bool speaks);
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  ~Report();

  /// One line: the same call at each placement that was asked for.
  void line(std::span<const Measured> placements);
  /// The footer and the JSON file. Throws std::runtime_error when the file cannot be written.
  void finish(std::optional<double> round_trip_us);

 private:
  void header() const;
  void row(const Measured& measured);

  const Options& options_;
  const Machine& machine_;
  std::optional<double> round_trip_before_us_;
  bool speaks_;
  std::unique_ptr<nlohmann::ordered_json> rows_;
  double bus_sum_gbs_ = 0;
  std::int64_t wrong_ = 0;
  std::int64_t mpi_wrong_ = 0;
  bool has_other_peer_calls_ = false;
};

}  // namespace perf
