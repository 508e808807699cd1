// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of hosts for lockstep-run: every input is a list of hosts with ranks, or throws OptionError.

#include "target.hpp"

#include "apps/options/option_error.hpp"
#include "run/options.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(data, size);
  try {
    const auto hosts = run::read_host_file("--hostfile", file.path());
    if (hosts.empty()) std::abort();
    for (const run::Host& host : hosts) {
      if (host.name.empty() || host.name.front() == '-' || host.slots < 1) std::abort();
    }
  } catch (const options::OptionError&) {  // NOLINT(bugprone-empty-catch)
  }
  return 0;
}
