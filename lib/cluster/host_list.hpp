// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The lists in Slurm's variables, read for a caller that names them in its own words.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// As expand_hostlist and expand_tasks_per_node; errors begin with `subject`.
[[nodiscard]] std::vector<std::string> hosts_of_list(std::string_view text, std::string_view subject);
[[nodiscard]] std::vector<int> tasks_of_list(std::string_view text, std::string_view subject);

}  // namespace lockstep::detail
