// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "doctor/report.hpp"

#include "apps/options/counted.hpp"
#include "apps/options/name_ranks.hpp"
#include "base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace doctor {
namespace {

using lockstep::detail::printable;

std::string colored(Severity severity, const std::string& text, Colors colors) {
  if (colors == Colors::off) return text;
  const int code = severity == Severity::ok        ? 32
                   : severity == Severity::note    ? 36
                   : severity == Severity::warning ? 33
                                                   : 31;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

}  // namespace

std::string to_text(const std::vector<Finding>& findings, Colors colors) {
  std::string text;
  std::string group;
  for (const Finding& finding : findings) {
    if (finding.group != group) {
      group = finding.group;
      text += fmt::format("{}\n", group);
    }
    const std::string ranks = options::name_ranks(finding.ranks);
    text +=
        fmt::format("  {} {}{}{}\n", colored(finding.severity, fmt::format("{:<8}", name_of(finding.severity)), colors),
                    ranks, ranks.empty() ? "" : ": ", printable(finding.text));
    if (!finding.remedy.empty()) text += fmt::format("           remedy: {}\n", printable(finding.remedy));
  }
  const auto count = [&](Severity severity) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& each) { return each.severity == severity; });
  };
  return text + fmt::format("{}, {}, {}\n", options::counted(count(Severity::error), "error"),
                            options::counted(count(Severity::warning), "warning"),
                            options::counted(count(Severity::note), "note"));
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
