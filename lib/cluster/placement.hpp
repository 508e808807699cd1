// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the ranks of a node get in one another's way.

#pragma once

#include "cluster/topology.hpp"

#include <span>
#include <string>

namespace lockstep::detail {

/// The cores of one rank, and who else is there.
struct Placement {
  int ranks = 1;          ///< that may run on one of this rank's cores, or on those of one that may, and so on
  int cores = 1;          ///< that these ranks have together
  int threads = 1;        ///< that this rank may use without taking a core from another
  bool is_bound = false;  ///< whether the launcher gave this rank fewer processors than the node's ranks have together
  [[nodiscard]] bool shares_cores() const noexcept { return ranks > cores; }
};

/// `sets[i]` is what the i-th rank of the node may run on, `own` the index of this one.
[[nodiscard]] Placement place(const Topology& topology, std::span<const ProcessorSet> sets, std::size_t own);

/// One line for people.
[[nodiscard]] std::string to_string(const Placement& placement);

}  // namespace lockstep::detail
