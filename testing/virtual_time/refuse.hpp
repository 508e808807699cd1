// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocking functions that have no replacement.

#pragma once

namespace lockstep::virtual_time::detail {

/// Ends the process with the name of the function and the stacks of all threads.
[[noreturn]] void refuse(const char* function);

}  // namespace lockstep::virtual_time::detail
