// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The parameter of the mixed-radix family: a list of stages, nearest ranks first.

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// The operation of a stage on its group of neighbours.
enum class StageKind : std::uint8_t {
  node,       ///< splits the vector among the ranks of a node
  split,      ///< splits it among `radix` neighbours
  replicate,  ///< gives all of it to each of `radix` neighbours
};

struct StageRadix {
  StageKind kind = StageKind::split;
  int radix = 0;  ///< 0: all that are left; for a node stage: set from the layout
  friend auto operator<=>(const StageRadix&, const StageRadix&) = default;
};

using Radices = std::vector<StageRadix>;

/// The number of groups into which a stage joins `below` groups. If fewer than half a group are left over when all
/// groups are full, they join the last group, because in a small group each rank would have to handle the slices of
/// several ranks of a full group. Replicating stages have groups of nearly equal size instead.
[[nodiscard]] constexpr int groups_above(StageRadix stage, int below) noexcept {
  const int whole = below / stage.radix;
  const int rest = below % stage.radix;
  if (stage.kind == StageKind::replicate) return whole + (rest > 0 ? 1 : 0);
  return whole == 0 || rest >= stage.radix - rest ? whole + 1 : whole;
}

/// A pattern of radices as text, nearest stage first, separated by dots: "n.4.4.f4".
///   n    the ranks of a node share the work; first stage only
///   K    split among K neighbours, K >= 2; 0: among all that are left
///   rK   replicate among K neighbours; r0: among all that are left
///   fK   replicate among K neighbours repeatedly, until all are joined: recursive doubling of radix K; last stage only
/// No splitting stage may follow a replicating one, and no stage may follow one with K = 0. Throws
/// Error(invalid_argument) that names the invalid part and the rule.
class RadixPattern {
 public:
  explicit RadixPattern(std::string_view text);

  /// The stages for a job. Superfluous stages are dropped; ranks that no stage covers are split in one last stage (or
  /// replicated, if a replicating stage came before). Any pattern fits any job.
  [[nodiscard]] Radices stages(int ranks, int nodes) const;

 private:
  Radices stages_;
  int repeated_ = 0;  // K of a final fK
};

/// The radices as text: "n.4.r4.r2".
[[nodiscard]] std::string to_string(const Radices& radices);

}  // namespace lockstep::detail
