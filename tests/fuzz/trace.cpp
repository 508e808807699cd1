// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Trace files of ranks: every input is a file, which can be merged, or throws lockstep::Error.

#include "target.hpp"

#include "cluster/trace_file.hpp"
#include "cluster/trace_merge.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::detail;
  fuzz::run(data, size, [](const auto& path) {
    std::vector<RankTrace> ranks;
    ranks.push_back(read_trace_file(path));
    const JobTrace job = merge_ranks(std::move(ranks));
    std::size_t bytes = 0;
    write_events(job, [&](std::string_view part) { bytes += part.size(); });
    volatile std::size_t sink = bytes + summarize(job).size();
    static_cast<void>(sink);
  });
  return 0;
}
