// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Slurm's lists of hosts and of tasks: every input is a valid list, or throws Error(invalid_argument).

#include "target.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/slurm_cluster_resolver.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

template <class Expand>
void expand(std::string_view text, const Expand& function) {
  constexpr std::size_t most = 65536;
  try {
    const auto list = function(text);
    if (list.empty() || list.size() > most) std::abort();
  } catch (const lockstep::Error& error) {
    if (error.code() != lockstep::Code::invalid_argument) std::abort();
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expand(text, [](std::string_view list) { return lockstep::expand_hostlist(list); });
  expand(text, [](std::string_view list) { return lockstep::expand_tasks_per_node(list); });
  return 0;
}
