// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of lockstep-perf. The command line overrides LOCKSTEP_PERF_* variables, and these a configuration file.

#pragma once

#include "bench/harness/collective.hpp"

#include <lockstep/core/reduce_op.hpp>

#include "bench/simulate/simulation.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace perf {

/// The placement of a call's result.
enum class Placement { out_of_place, in_place };

/// The library that lockstep is compared with.
enum class Peer { none, mpi, nccl };
/// "MPI", "NCCL"; empty for none.
[[nodiscard]] std::string peer_name(Peer peer);

/// The thread level of MPI, in MPI's order.
enum class ThreadLevel { single, funneled, serialized, multiple };

struct Options {
  // the calls
  std::vector<Collective> collectives{Collective::all_reduce};
  std::int64_t min_bytes = 8;
  std::int64_t max_bytes = std::int64_t{64} << 20;
  std::int64_t step_bytes = 0;  ///< 0: sizes grow by step_factor instead
  std::int64_t step_factor = 2;
  std::string list;                       ///< name of a gradient list instead of sizes; empty for none
  std::vector<std::int64_t> list_counts;  ///< number of elements of each tensor of the list
  std::vector<lockstep::DType> dtypes{lockstep::DType::f32};
  std::vector<lockstep::ReduceOp> ops{lockstep::ReduceOp::sum};
  std::optional<lockstep::Order> order;  ///< none: the communicator's default
  std::vector<Placement> placements{Placement::out_of_place, Placement::in_place};
  int root = 0;
  int replicas_per_rank = 1;
  std::vector<Form> forms;  ///< none: for each collective its first one
  bool prepared = true;     ///< all_reduce runs a prepared Plan

  // the measurement
  std::int64_t iterations = 20;
  std::int64_t warmup_iterations = 5;
  bool check = true;
  std::string memory = "malloc";      ///< name of a MemoryKind
  std::string mpi_memory = "malloc";  ///< the same, for MPI's buffers
  Peer compare = Peer::none;
  bool limit = false;
  std::optional<ThreadLevel> thread_level;  ///< none: lockstep's default
  std::optional<Simulation> simulate;       ///< a cluster to simulate, instead of measuring
  bool show_selection = false;              ///< show the selected schedules, instead of measuring
  bool node_report = false;                 ///< describe the node before the measurement
  bool strategy = false;                    ///< measure the strategy layer instead of collectives
  bool input = false;                       ///< measure the readers of files instead of collectives

  // the output
  bool percentiles = false;
  bool osu = false;      ///< OSU's two columns instead of the table
  std::string json;      ///< file name; empty for none, as for the following
  std::string csv;       ///< file name
  std::string baseline;  ///< file name: the JSON of an earlier run
  std::string plot;      ///< file name, or "-" for the terminal
  std::string help;      ///< the help text; empty if it was not requested
  bool version = false;  ///< show the version, and end

  std::map<std::string, std::string> given;  ///< the values as given, of all options that must be equal on all ranks
  /// The places that set options that the command line does not set (see options::Sources).
  std::map<std::string, std::string> sources;

  /// The sizes of the sweep, smallest first.
  [[nodiscard]] std::vector<std::int64_t> sizes_bytes() const;
  /// The forms that are measured of `collective`; none if it has none of those that were given.
  [[nodiscard]] std::vector<Form> forms_of(Collective collective) const;
  /// Whether --collective was "all": then calls that an option excludes are left out, instead of being refused.
  [[nodiscard]] bool has_all_collectives() const noexcept { return collectives.size() == collective_count; }
};

/// Number of elements of a buffer of `bytes`: as many as fit, at least one.
[[nodiscard]] std::int64_t count_elements(std::int64_t bytes, lockstep::DType dtype) noexcept;

/// Local; the same on every rank, given the same arguments, variables and files. Throws OptionError.
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

}  // namespace perf
