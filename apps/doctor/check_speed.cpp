// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Slow ranks and slow links, and all checks together.

#include "doctor/checks.hpp"

#include <lockstep/base/exit_code.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace doctor {
namespace {

constexpr const char* speed = "speed";

void check_compute(const JobFacts& job, std::vector<Finding>& findings) {
  std::vector<double> times;
  for (const RankFacts& facts : job.ranks) {
    if (facts.compute_ms > 0) times.push_back(facts.compute_ms);
  }
  if (times.size() < 2) return;
  // of two ranks, the faster one is what to expect
  const double usual = times.size() < least_of_kind ? *std::min_element(times.begin(), times.end()) : median_of(times);
  bool is_even = true;
  for (const RankFacts& facts : job.ranks) {
    if (facts.compute_ms <= slow_factor * usual) continue;
    is_even = false;
    findings.push_back(
        {Severity::warning,
         speed,
         fmt::format("slow rank: a fixed computation takes {:.1f} ms on {}, but {:.1f} ms on other ranks; all "
                     "ranks wait for the slowest one in each step",
                     facts.compute_ms, facts.host, usual),
         "look for other processes on its cores (top), a cgroup limit, or a lower clock frequency (power or heat)",
         {facts.rank}});
  }
  if (is_even)
    findings.push_back({Severity::ok,
                        speed,
                        fmt::format("ranks compute at the same speed, within a factor of {:g}", slow_factor),
                        {},
                        {}});
}

std::string name_of_link(const JobFacts& job, const Link& link) {
  const auto host = [&](int rank) {
    const auto found =
        std::find_if(job.ranks.begin(), job.ranks.end(), [&](const auto& each) { return each.rank == rank; });
    return found == job.ranks.end() ? std::string("?") : found->host;
  };
  return link.is_between_hosts
             ? fmt::format("ranks {} ({}) and {} ({})", link.first, host(link.first), link.second, host(link.second))
             : fmt::format("ranks {} and {} of {}", link.first, link.second, host(link.first));
}

using Links = std::vector<const Link*>;

/// Adds one finding for a link whose `value` is worse than the usual one; the worse is the larger.
template <class Value>
void compare_links(const JobFacts& job, const Links& links, Value value, const char* what, const char* unit,
                   std::vector<std::pair<const Link*, Finding>>& found) {
  std::vector<double> values;
  for (const Link* const link : links) values.push_back(value(*link));
  if (values.size() < least_of_kind) return;
  const double usual = median_of(values);
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (values[i] <= slow_factor * usual) continue;
    const Link& link = *links[i];
    found.push_back(
        {&link,
         {Severity::warning,
          speed,
          fmt::format("slow link: {} between {} is {:.3g} {}, but {:.3g} {} in the median", what,
                      name_of_link(job, link), values[i], unit, usual, unit),
          link.is_between_hosts
              ? "check cables, switch ports and errors of the interface (ip -s link), and the interface that MPI uses"
              : "check the bindings of the two ranks, and other processes on their cores",
          {std::min(link.first, link.second), std::max(link.first, link.second)}}});
  }
}

/// A rank all of whose several links are slow is named instead of its links.
void add_slow_links(const JobFacts& job, const Links& links, std::vector<Finding>& findings) {
  std::map<int, int> all;
  std::vector<std::pair<const Link*, Finding>> found;
  compare_links(job, links, [](const Link& link) { return link.latency_us; }, "the latency of 8 bytes", "us", found);
  compare_links(job, links, [](const Link& link) { return 1 / link.bandwidth_gbs; }, "the time of 1 GB", "s", found);
  std::map<int, std::vector<const Link*>> distinct;
  for (const Link* const link : links) {
    ++all[link->first];
    ++all[link->second];
  }
  for (const auto& [link, finding] : found) {
    for (const int rank : {link->first, link->second}) {
      auto& some = distinct[rank];
      if (std::find(some.begin(), some.end(), link) == some.end()) some.push_back(link);
    }
  }
  std::vector<int> culprits;
  for (const auto& [rank, some] : distinct) {
    if (all[rank] > 1 && some.size() == static_cast<std::size_t>(all[rank])) culprits.push_back(rank);
  }
  for (const int rank : culprits) {
    const auto facts =
        std::find_if(job.ranks.begin(), job.ranks.end(), [&](const auto& each) { return each.rank == rank; });
    findings.push_back(
        {Severity::warning,
         speed,
         fmt::format("slow rank: all {} measured links of {} are slower than the median by a factor above {:g}",
                     all[rank], facts == job.ranks.end() ? "it" : facts->host, slow_factor),
         "check the network interface of its host, other processes there, and its binding",
         {rank}});
  }
  for (auto& [link, finding] : found) {
    const auto is_culprit = [&](int rank) {
      return std::find(culprits.begin(), culprits.end(), rank) != culprits.end();
    };
    if (!is_culprit(link->first) && !is_culprit(link->second)) findings.push_back(std::move(finding));
  }
}

void summarize_links(const Links& links, const char* kind, std::vector<Finding>& findings) {
  std::vector<double> latencies;
  std::vector<double> bandwidths;
  std::vector<double> reductions;
  for (const Link* const link : links) {
    latencies.push_back(link->latency_us);
    bandwidths.push_back(link->bandwidth_gbs);
    if (link->all_reduce_us > 0) reductions.push_back(link->all_reduce_us);
  }
  findings.push_back(
      {Severity::ok,
       speed,
       fmt::format("{} link{} {}: median latency {:.3g} us, bandwidth {:.3g} GB/s, all_reduce of 64 KiB {}",
                   links.size(), links.size() == 1 ? "" : "s", kind, median_of(latencies), median_of(bandwidths),
                   reductions.empty() ? "not measured" : fmt::format("{:.3g} us", median_of(reductions))),
       {},
       {}});
}

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::ok: return "ok";
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: return "error";
  }
  return {};
}

void check_speed(const JobFacts& job, std::vector<Finding>& findings) {
  if (!job.transport.empty())
    findings.push_back({Severity::ok, speed, "between hosts, data goes by " + job.transport, {}, {}});
  check_compute(job, findings);
  if (!job.not_measured.empty())
    findings.push_back({Severity::note,
                        speed,
                        fmt::format("links: not measured, {}", job.not_measured),
                        "start several ranks, without --quick",
                        {}});
  for (const bool is_between : {false, true}) {
    Links links;
    for (const Link& link : job.links) {
      if (link.is_between_hosts != is_between) continue;
      if (!link.error.empty())
        findings.push_back({Severity::error,
                            speed,
                            fmt::format("the link between {} does not work: {}", name_of_link(job, link), link.error),
                            "check the network between the two hosts, its firewall, and the interfaces that MPI uses",
                            {link.first, link.second}});
      if (link.latency_us > 0 && link.bandwidth_gbs > 0) links.push_back(&link);
    }
    if (links.empty()) continue;
    summarize_links(links, is_between ? "between hosts" : "inside hosts", findings);
    add_slow_links(job, links, findings);
    for (const Link* const link : links) {
      if (!is_between || link->bandwidth_gbs >= least_bandwidth_gbs) continue;
      findings.push_back({Severity::warning,
                          speed,
                          fmt::format("slow link: {} exchange {:.3g} GB/s, less than 1 Gbit/s",
                                      name_of_link(job, *link), link->bandwidth_gbs),
                          "check that MPI uses the fast interface (OMPI_MCA_btl_tcp_if_include, UCX_NET_DEVICES), and "
                          "its speed (ethtool)",
                          {link->first, link->second}});
    }
  }
}

std::vector<Finding> check_all(const JobFacts& job) {
  std::vector<Finding> all;
  check_start(job, all);
  check_variables(job, all);
  check_processors(job, all);
  check_memory(job, all);
  check_network(job, all);
  check_gpus(job, all);
  check_speed(job, all);
  std::vector<Finding> merged;
  for (Finding& finding : all) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Finding& other) {
      return other.severity == finding.severity && other.text == finding.text && other.remedy == finding.remedy;
    });
    if (same == merged.end()) {
      merged.push_back(std::move(finding));
    } else {
      same->ranks.insert(same->ranks.end(), finding.ranks.begin(), finding.ranks.end());
    }
  }
  for (Finding& finding : merged) {
    std::sort(finding.ranks.begin(), finding.ranks.end());
    finding.ranks.erase(std::unique(finding.ranks.begin(), finding.ranks.end()), finding.ranks.end());
    if (finding.ranks.size() == static_cast<std::size_t>(job.size)) finding.ranks.clear();
  }
  return merged;
}

int exit_code_of(const std::vector<Finding>& findings) {
  const bool fails = std::any_of(findings.begin(), findings.end(),
                                 [](const Finding& each) { return each.severity == Severity::error; });
  return fails ? lockstep::exit_code::unfit : lockstep::exit_code::success;
}

}  // namespace doctor
