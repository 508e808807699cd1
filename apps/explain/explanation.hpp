// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What happened, in words.

#pragma once

#include "explain/history.hpp"

#include <string>

namespace explain {

/// Some lines of text: which rank is missing or called something else first, in which operation each rank is, and where
/// in its source.
[[nodiscard]] std::string explain(const Selection& selection);

}  // namespace explain
