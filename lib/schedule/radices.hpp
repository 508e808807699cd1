// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The parameter of the mixed-radix schedules: a list of stages. The first stage joins the nearest ranks.

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// The operation of a stage on a group of neighbours.
enum class StageKind : std::uint8_t {
  node,       ///< splits the vector among the ranks of a node
  split,      ///< splits the vector among `radix` neighbours
  replicate,  ///< gives the whole vector to each of `radix` neighbours
};

struct StageRadix {
  StageKind kind = StageKind::split;
  int radix = 0;  ///< 0: all remaining neighbours; in a node stage, the layout determines the radix
  friend auto operator<=>(const StageRadix&, const StageRadix&) = default;
};

using Radices = std::vector<StageRadix>;

/// The number of groups after a stage that joins `below` groups. If a last group would be less than half full, its
/// members join the previous group instead, because in a small group each rank would have to handle the slices of
/// several ranks of a full group. The groups of a replicating stage have nearly equal sizes instead.
[[nodiscard]] constexpr int groups_above(StageRadix stage, int below) noexcept {
  const int whole = below / stage.radix;
  const int rest = below % stage.radix;
  if (stage.kind == StageKind::replicate) return whole + (rest > 0 ? 1 : 0);
  return whole == 0 || rest >= stage.radix - rest ? whole + 1 : whole;
}

/// A pattern of radices as text, nearest stage first, separated by dots: "n.4.4.f4".
///   n    the ranks of a node share the work; first stage only
///   K    split among K neighbours, K >= 2; 0: split among all remaining neighbours
///   rK   replicate among K neighbours; r0: replicate among all remaining neighbours
///   fK   repeat rK until all ranks are joined: recursive doubling of radix K; last stage only
/// A splitting stage must not follow a replicating stage. No stage may follow a stage with K = 0. Throws
/// Error(invalid_argument), which names the invalid stage and the rule.
class RadixPattern {
 public:
  /// Error texts begin with `argument`.
  explicit RadixPattern(std::string_view text, std::string_view argument = "radices ");

  /// The stages for a job of `ranks` ranks on `nodes` nodes. Superfluous stages are dropped. If the stages do not join
  /// all ranks, one last stage is added that joins them. The added stage replicates if the previous stage replicates,
  /// otherwise it splits. Any pattern fits any job.
  [[nodiscard]] Radices stages(int ranks, int nodes) const;

 private:
  Radices stages_;
  int repeated_ = 0;  // K of a final fK; 0 if there is no fK
};

/// The radices as text: "n.4.r4.r2".
[[nodiscard]] std::string to_string(const Radices& radices);

}  // namespace lockstep::detail
