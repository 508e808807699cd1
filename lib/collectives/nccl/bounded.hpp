// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls of a library that may never return.

#pragma once

#include <chrono>
#include <functional>

namespace lockstep::detail {

/// Runs `work`, which throws nothing and owns what it uses, on a thread of its own; whether it ended within `patience`.
/// Else the thread is left behind.
[[nodiscard]] bool ends_within(std::chrono::milliseconds patience, const std::function<void()>& work) noexcept;

}  // namespace lockstep::detail
