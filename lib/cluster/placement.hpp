// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a node share its cores.

#pragma once

#include "cluster/topology.hpp"

#include <span>
#include <string>

namespace lockstep::detail {

/// The cores of one rank, and the ranks that share them. A rank's group is the ranks that may run on one of its cores,
/// directly or through a chain of overlapping ranks.
struct Placement {
  int ranks = 1;          ///< ranks in the group
  int cores = 1;          ///< cores that the group may use
  int threads = 1;        ///< threads that this rank may use without taking a core from another rank
  bool is_bound = false;  ///< whether this rank may use fewer processors than all ranks of the node together
  [[nodiscard]] bool shares_cores() const noexcept { return ranks > cores; }
};

/// `sets[i]` holds the processors that the i-th rank of the node may run on; `own` is the index of this rank.
[[nodiscard]] Placement place(const Topology& topology, std::span<const ProcessorSet> sets, std::size_t own);

/// One line of text for Environment::describe().
[[nodiscard]] std::string to_string(const Placement& placement);

}  // namespace lockstep::detail
