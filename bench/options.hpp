// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a user can choose: command line before LOCKSTEP_PERF_* variables before a configuration file.

#pragma once

#include "collective.hpp"

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
enum class Peer { none, mpi, nccl };
/// "MPI", "NCCL"; empty for none.
[[nodiscard]] std::string peer_name(Peer peer);

/// What MPI is initialised with, in MPI's order.
enum class ThreadLevel { single, funneled, serialized, multiple };

struct Options {
  // what is called
  std::vector<Collective> collectives{Collective::all_reduce};
  std::int64_t min_bytes = 8;
  std::int64_t max_bytes = std::int64_t{64} << 20;
  std::int64_t step_bytes = 0;  ///< 0: sizes grow by step_factor instead
  std::int64_t step_factor = 2;
  std::string list;                       ///< name of a gradient list instead of sizes; empty for none
  std::vector<std::int64_t> list_counts;  ///< elements of its tensors
  std::vector<lockstep::DType> dtypes{lockstep::DType::f32};
  std::vector<lockstep::ReduceOp> ops{lockstep::ReduceOp::sum};
  std::optional<lockstep::Order> order;  ///< none: lockstep's own, which a communicator knows
  std::vector<Placement> placements{Placement::out_of_place, Placement::in_place};
  int root = 0;
  int replicas_per_rank = 1;
  bool async = false;
  bool prepared = true;  ///< all_reduce is a Plan

  // how it is measured
  std::int64_t iterations = 20;
  std::int64_t warmup_iterations = 5;
  bool check = true;
  std::string memory = "malloc";      ///< name of a MemoryKind
  std::string mpi_memory = "malloc";  ///< the same, for MPI's buffers
  Peer compare = Peer::none;
  bool limit = false;
  std::optional<ThreadLevel> thread_level;  ///< none: lockstep's own choice
  std::optional<Simulation> simulate;       ///< a cluster to price instead of measuring this one
  bool show_selection = false;              ///< what is chosen, instead of measuring it
  bool strategy = false;                    ///< the strategy layer instead of collectives
  bool input = false;                       ///< readers of files instead of collectives

  // what is shown
  bool percentiles = false;
  bool osu = false;      ///< OSU's two columns instead of the table
  std::string json;      ///< file name; empty for none, as for the following
  std::string csv;       ///< file name
  std::string baseline;  ///< file name: the JSON of an earlier run
  std::string plot;      ///< file name, or "-" for the terminal
  std::string help;      ///< the help text, when it was asked for

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
