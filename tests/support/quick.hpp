// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdlib>

namespace lockstep::test {

/// Whether a lane is slow by itself (sanitizers) and wants less of what shows the same code again and again.
inline bool is_quick() { return std::getenv("QUICK_TESTS") != nullptr; }

}  // namespace lockstep::test
