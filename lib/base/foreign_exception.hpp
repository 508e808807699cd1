// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace lockstep::detail {

/// For a handler `catch (...)`: "an exception of type int, which is not a std::exception". Local.
[[nodiscard]] std::string text_of_foreign_exception();

}  // namespace lockstep::detail
