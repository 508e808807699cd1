// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a user can choose: command line before LOCKSTEP_PERF_* variables before a configuration file.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include "simulation.hpp"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace perf {

/// Where a call's result goes.
enum class Placement { out_of_place, in_place };

/// Whom ours is compared with.
enum class Peer { none, mpi };

struct Options {
  std::int64_t min_bytes = 8;
  std::int64_t max_bytes = std::int64_t{64} << 20;
  std::int64_t step_bytes = 0;  ///< 0: sizes grow by step_factor instead
  std::int64_t step_factor = 2;
  std::vector<lockstep::DType> dtypes{lockstep::DType::f32};
  std::vector<lockstep::ReduceOp> ops{lockstep::ReduceOp::sum};
  std::int64_t iterations = 20;
  std::int64_t warmup_iterations = 5;
  bool check = true;
  lockstep::Order order = lockstep::Order::canonical;
  std::vector<Placement> placements{Placement::out_of_place, Placement::in_place};
  Peer compare = Peer::none;
  std::optional<Simulation> simulate;
  std::string json;  ///< file name; empty for none
  std::string help;  ///< the help text, when it was asked for

  /// The sizes of the sweep, smallest first.
  [[nodiscard]] std::vector<std::int64_t> sizes_bytes() const;
};

/// Elements of one rank for a wanted size: as many as fit, at least one.
[[nodiscard]] std::int64_t count_elements(std::int64_t bytes, lockstep::DType dtype) noexcept;

/// A value that cannot be: names the option, the value and the rule.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Local; the same on every rank, given the same arguments, variables and files. Throws OptionError.
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

}  // namespace perf
