// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <span>

namespace lockstep {

/// The length of all `gradients` together, taken as one vector: the root of the sum of squares, summed in f64 in one
/// fixed order, so that equal gradients give the same bits on every replica. Local.
[[nodiscard]] LOCKSTEP_API double global_norm(std::span<const std::span<float>> gradients);

/// Scales all `gradients` by the same factor, in place, so that their global norm is at most `clip_norm`; returns the
/// norm that they had. Where it was at most `clip_norm` nothing is written; where it was infinite or NaN every element
/// becomes NaN, so that the step does not pass for a good one. Local: call it on every replica, with gradients that are
/// equal on all, as after all_reduce. Throws Error(invalid_argument) unless `clip_norm` is positive and finite.
LOCKSTEP_API double clip_by_global_norm(std::span<const std::span<float>> gradients, float clip_norm);

}  // namespace lockstep
