// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The parameter of the mixed-radix family: a list of stages, nearest ranks first.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// What one stage does with its group of neighbours.
enum class StageKind : std::uint8_t {
  node,       ///< splits the vector among the ranks of a node
  split,      ///< splits it among `radix` neighbours
  replicate,  ///< everybody gets all of it from `radix` neighbours, once
};

struct StageRadix {
  StageKind kind = StageKind::split;
  int radix = 0;  ///< 0: all that is left; of a node: set by its ranks
  friend bool operator==(const StageRadix&, const StageRadix&) = default;
};

using Radices = std::vector<StageRadix>;

/// Groups that a stage makes of `below` groups. Of those that are left over when all groups are full, less than half a
/// group joins the last one, since few members could not serve the lanes of many. Replicating stages have groups of
/// nearly equal size instead.
[[nodiscard]] constexpr int groups_above(StageRadix stage, int below) noexcept {
  const int whole = below / stage.radix;
  const int rest = below % stage.radix;
  if (stage.kind == StageKind::replicate) return whole + (rest > 0 ? 1 : 0);
  return whole == 0 || rest >= stage.radix - rest ? whole + 1 : whole;
}

/// Radices as text, nearest stage first, with dots: "n.4.4.f4".
///   n    the ranks of a node share the work; first only
///   K    split among K neighbours, K >= 2; 0: among all that is left
///   rK   replicate among K neighbours; r0: among all that is left
///   fK   replicate among K neighbours again and again, until nobody is left: recursive doubling of radix K; last only
/// No splitting stage after one that replicates. Throws Error(invalid_argument) that names the part and the rule.
class RadixPattern {
 public:
  explicit RadixPattern(std::string_view text);

  /// The stages for a job: what is more than enough is left out, and what nobody mentions is split in one last stage
  /// (or exchanged whole, where a replicating stage came before). Any list serves any job.
  [[nodiscard]] Radices stages(int ranks, int nodes) const;

 private:
  Radices stages_;
  int repeated_ = 0;  // K of a last fK
};

/// "n.4.r4.r2".
[[nodiscard]] std::string to_string(const Radices& radices);

}  // namespace lockstep::detail
