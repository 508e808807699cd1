// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Slurm's short forms of long lists.

#pragma once

#include <lockstep/base/export.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The hosts that a list in Slurm's syntax names, in its order: "n[01-03,7],m5-[1-2]" is n01, n02, n03, n7, m5-1, m5-2.
/// A number keeps the width of the range's first; several brackets in a name are combined, the last one fastest. Local.
///
/// Throws Error(invalid_argument) that says where in the text and what: for an empty name, brackets that are not closed
/// or stand in one another, a range that is no pair of numbers or goes down, a character that no host's name has, and
/// above 65536 hosts (Slurm's own limit) or 255 characters in a name.
[[nodiscard]] LOCKSTEP_API std::vector<std::string> expand_hostlist(std::string_view text);

/// The numbers of a list in the syntax of SLURM_TASKS_PER_NODE: "3(x2),2,1" is 3, 3, 2, 1. Local.
/// Throws Error(invalid_argument) that says where and what; a number is at least 1, and there are at most 65536.
[[nodiscard]] LOCKSTEP_API std::vector<int> expand_tasks_per_node(std::string_view text);

}  // namespace lockstep
