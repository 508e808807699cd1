// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that the library writes for the user: flight records, metrics and traces.

#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// Name of this host, for files; "unknown" if there is none.
[[nodiscard]] std::string host_name();

/// Takes the parts of a file in their order.
using WriteText = std::function<void(std::string_view)>;

/// Replaces a file by the parts that `produce` passes to its argument. Atomic: readers see the old file or the new
/// file. Links that other users have made in a shared directory are not followed. Throws Error(unavailable) "cannot
/// write <what> <path>: <reason>", and what `produce` throws; the old file is then unchanged.
void replace_file(const std::string& path, std::string_view what, const std::function<void(const WriteText&)>& produce);
/// The same for one text.
void replace_file(const std::string& path, std::string_view text, std::string_view what);

}  // namespace lockstep::detail
