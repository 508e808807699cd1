// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace lockstep::detail {

/// `memory`, which somebody may touch until the process ends, is never freed; leak checkers find it reachable.
void leak(const void* memory) noexcept;

}  // namespace lockstep::detail
