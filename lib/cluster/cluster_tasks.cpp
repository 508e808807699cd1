// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/cluster_tasks.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"

#include <iterator>
#include <map>
#include <numeric>

namespace lockstep::detail {

ClusterSpec assign_to_jobs(const Jobs& jobs, std::vector<std::string> addresses, std::string_view call,
                           std::string_view counted) {
  if (jobs.empty()) {
    std::map<std::string, ClusterSpec::Tasks> all;
    all.emplace("worker", numbered_from_zero(std::move(addresses)));
    return ClusterSpec(std::move(all));
  }
  const auto add = [](long long sum, const auto& job) { return sum + job.second; };
  const long long wanted = std::accumulate(jobs.begin(), jobs.end(), 0LL, add);
  std::map<std::string, ClusterSpec::Tasks> dealt;
  auto next = std::make_move_iterator(addresses.begin());
  for (const auto& [name, count] : jobs) {
    if (count < 1) {
      throw_error(Code::invalid_argument, "{}: job \"{}\" has {} tasks; it must have at least 1", call, name, count);
    }
    if (wanted != static_cast<long long>(addresses.size())) {
      throw_error(Code::invalid_argument, "{}: the jobs have {}, but {} {}; the numbers must be equal", call,
                  detail::counted(wanted, "task"), counted, addresses.size());
    }
    const auto end = next + count;
    if (!dealt.emplace(name, numbered_from_zero({next, end})).second) {
      throw_error(Code::invalid_argument, "{}: job \"{}\" is given twice", call, name);
    }
    next = end;
  }
  return ClusterSpec(std::move(dealt));
}

std::pair<std::string, int> task_of_rank(const Jobs& jobs, int rank) {
  for (const auto& [name, count] : jobs) {
    if (rank < count) return {name, rank};
    rank -= count;
  }
  return {"worker", rank};
}

void check_ports(int base, int tasks, std::string_view call) {
  constexpr int last_port = 65535;
  if (base < 1 || base > last_port - tasks + 1) {
    throw_error(Code::invalid_argument, "{}: port_base is {}; with {} tasks on a node it must be in 1 to {}", call,
                base, tasks, last_port - tasks + 1);
  }
}

}  // namespace lockstep::detail
