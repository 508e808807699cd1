// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies of this library in one process. Each copy would have state of its own: two queues of operations, two arenas.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// A file that the process has loaded, with a copy of this library in it: a program or another library that was linked
/// with the archive, or liblockstep.so.
struct LibraryCopy {
  std::string path;
  std::string version;
};

/// The copies in the order in which the dynamic loader has them; the program comes first. Each copy has a note (of ELF)
/// that names its version, so copies of which no symbol is visible are found, too.
[[nodiscard]] std::vector<LibraryCopy> library_copies();

/// Throws Error(failed_precondition) if there are several copies. The text starts with `call`, and has the path and
/// version of each copy.
void check_for_one_copy(std::string_view call);

}  // namespace lockstep::detail
