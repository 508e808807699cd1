// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <span>

namespace lockstep {

/// The 2-norm of all `gradients`, taken as one vector. The squares are summed in f64 in one fixed order, so that equal
/// gradients give the same bits on every replica. Local.
[[nodiscard]] LOCKSTEP_API double global_norm(std::span<const std::span<float>> gradients);

/// Scales all `gradients` in place by one factor such that their global norm is at most `clip_norm`, and returns the
/// norm before scaling. If this norm is at most `clip_norm`, nothing is written. If this norm is infinite or NaN, every
/// element becomes NaN, so that the failure of the step is visible. Local: every replica must call this function with
/// equal gradients, such as the results of an all_reduce. Throws Error(invalid_argument) unless `clip_norm` is positive
/// and finite.
LOCKSTEP_API double clip_by_global_norm(std::span<const std::span<float>> gradients, float clip_norm);

}  // namespace lockstep
