// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace doctor {
namespace {

std::string colored(Severity severity, const std::string& text, Colors colors) {
  if (colors == Colors::off) return text;
  const int code = severity == Severity::ok        ? 32
                   : severity == Severity::note    ? 36
                   : severity == Severity::warning ? 33
                                                   : 31;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string counted(std::ptrdiff_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return {};
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", first == 0 ? "" : ", ", ranks[first]);
    if (last > first) text += fmt::format("{}{}", last > first + 1 ? "-" : ", ", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string to_text(const std::vector<Finding>& findings, Colors colors) {
  std::string text;
  std::string group;
  for (const Finding& finding : findings) {
    if (finding.group != group) {
      group = finding.group;
      text += fmt::format("{}\n", group);
    }
    const std::string ranks = ranks_text(finding.ranks);
    text +=
        fmt::format("  {} {}{}{}\n", colored(finding.severity, fmt::format("{:<8}", name_of(finding.severity)), colors),
                    ranks, ranks.empty() ? "" : ": ", finding.text);
    if (!finding.remedy.empty()) text += fmt::format("           remedy: {}\n", finding.remedy);
  }
  const auto count = [&](Severity severity) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& each) { return each.severity == severity; });
  };
  return text + fmt::format("{}, {}, {}\n", counted(count(Severity::error), "error"),
                            counted(count(Severity::warning), "warning"), counted(count(Severity::note), "note"));
}

std::string to_json(const JobFacts& job, const std::vector<Finding>& findings, const std::string& version) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& each : findings) {
    list.push_back({{"severity", name_of(each.severity)},
                    {"group", each.group},
                    {"text", each.text},
                    {"remedy", each.remedy},
                    {"ranks", each.ranks}});
  }
  const nlohmann::json all{{"lockstep", version}, {"exit_code", exit_code_of(findings)},
                           {"size", job.size},    {"missing", job.missing},
                           {"findings", list},    {"links", job.links},
                           {"ranks", job.ranks}};
  return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace doctor
