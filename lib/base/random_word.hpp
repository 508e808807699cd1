// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers of the system, which are fit for secrets.

#pragma once

#include <cstdint>

namespace lockstep::detail {

/// A random number that is not 0. Throws Error(unavailable) if the system has none.
[[nodiscard]] std::uint64_t random_word();

}  // namespace lockstep::detail
