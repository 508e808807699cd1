// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that the library writes for the user: flight records, metrics and traces.

#pragma once

#include <string>
#include <string_view>

namespace lockstep::detail {

/// Name of this host, for files; "unknown" if there is none.
[[nodiscard]] std::string host_name();

/// Writes all of `text`. Returns false if this fails; errno then has the reason.
[[nodiscard]] bool write_all(int file, std::string_view text) noexcept;

/// Replaces a file atomically: readers see the old file or the new file. Links that other users have made in a shared
/// directory are not followed. Throws Error(unavailable) "cannot write <what> <path>: <reason>".
void replace_file(const std::string& path, std::string_view text, std::string_view what);

}  // namespace lockstep::detail
