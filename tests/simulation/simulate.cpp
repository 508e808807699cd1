// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// simulate [OPTION...]: runs simulated jobs, whose interleavings and faults follow from seeds, and checks what they
// show.

#include "simulation/job.hpp"
#include "simulation/scenario.hpp"
#include "simulation/specification.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace {

using namespace lockstep::simulation;

constexpr std::string_view usage =
    R"(simulate [OPTION...]: simulated jobs, whose interleavings and faults follow from seeds

  --runs N          so many runs (default 1000)
  --seconds S       runs for so long in place of a number of runs
  --first N         the seed of the first run; the next run has the next seed (default: random)
  --seed N          repeats the run of one seed
  --trace           prints what each rank does
  --ranks N[-M]     numbers of ranks (default 2-6)
  --nodes N         at most so many nodes (default 3)
  --operations N    at most so many operations (default 20)
  --faults N        at most so many faults (default 2)
  --without LIST    leaves parts of the jobs out: some of delays, deaths, departures, lateness
  --kept FILE       first runs the seeds of a file: a line has the options of one run
  --stop            stops at the first violation

The last line is "N runs, N interleavings, N faults, N violations"; the exit code is 1 if there are violations.
)";

struct Arguments {
  std::uint64_t runs = 1000;
  double seconds = 0;
  std::optional<std::uint64_t> first;
  bool is_one = false;
  bool trace = false;
  bool stops = false;
  std::string kept;
  Limits limits;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "simulate: %s\n", why.c_str());
  std::exit(2);
}

std::uint64_t number_of(const std::string& option, const std::string& text, std::uint64_t least, std::uint64_t most) {
  char* end = nullptr;
  errno = 0;
  const std::uint64_t number = std::strtoull(text.c_str(), &end, 10);
  const bool is_number = text.find_first_not_of("0123456789") == std::string::npos && !text.empty() && errno == 0;
  if (!is_number || number < least || number > most)
    refuse(fmt::format("{} {}: not a number from {} to {}", option, text, least, most));
  return number;
}

std::vector<Part> parts_of(const std::string& list) {
  constexpr std::array<std::string_view, parts> names{"delays", "deaths", "departures", "lateness"};
  std::vector<Part> found;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const auto name = std::find(names.begin(), names.end(), word);
    if (name == names.end())
      refuse(fmt::format("--without {}: {} is not one of {}", list, word, fmt::join(names, ", ")));
    found.push_back(static_cast<Part>(name - names.begin()));
  }
  return found;
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& option = words[i];
    if (option == "--help") {
      std::fputs(usage.data(), stdout);
      std::exit(0);
    }
    if (option == "--trace") {
      arguments.trace = true;
      continue;
    }
    if (option == "--stop") {
      arguments.stops = true;
      continue;
    }
    if (i + 1 == words.size()) refuse(fmt::format("{}: no such option, or no value; --help lists the options", option));
    const std::string& value = words[++i];
    const auto number = [&](std::uint64_t least, std::uint64_t most) { return number_of(option, value, least, most); };
    if (option == "--runs") {
      arguments.runs = number(1, 1'000'000'000);
    } else if (option == "--seconds") {
      arguments.seconds = static_cast<double>(number(1, 1'000'000));
    } else if (option == "--first" || option == "--seed") {
      arguments.first = number(0, UINT64_MAX);
      arguments.is_one = arguments.is_one || option == "--seed";
    } else if (option == "--ranks") {
      const std::size_t dash = value.find('-');
      const auto ranks = [&](const std::string& text) { return static_cast<int>(number_of(option, text, 1, 64)); };
      arguments.limits.least_ranks = ranks(value.substr(0, dash));
      arguments.limits.most_ranks =
          dash == std::string::npos ? arguments.limits.least_ranks : ranks(value.substr(dash + 1));
      if (arguments.limits.most_ranks < arguments.limits.least_ranks)
        refuse(fmt::format("{} {}: the first number is greater than the second", option, value));
    } else if (option == "--kept") {
      arguments.kept = value;
    } else if (option == "--without") {
      arguments.limits.without = parts_of(value);
    } else if (option == "--nodes") {
      arguments.limits.most_nodes = static_cast<int>(number(1, 8));
    } else if (option == "--operations") {
      arguments.limits.most_operations = static_cast<int>(number(1, 10'000));
    } else if (option == "--faults") {
      arguments.limits.most_faults = static_cast<int>(number(0, 8));
    } else {
      refuse(fmt::format("{}: no such option; --help lists the options", option));
    }
  }
  return arguments;
}

class Search {
 public:
  /// `is_one`: prints the whole scenario and all violations.
  void look_at(const Scenario& scenario, const Arguments& arguments, bool is_one) {
    if (arguments.trace) std::fputs(describe(scenario).c_str(), stdout);
    std::fflush(stdout);
    const Report report = run(scenario, arguments.trace);
    ++runs_;
    interleavings_.insert(report.history);
    for (const Outcome& outcome : report.ranks) faults_ += outcome.fault_at ? 1 : 0;
    const std::vector<std::string> found = lockstep::simulation::violations(scenario, report);
    if (found.empty()) return;
    ++violations_;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(scenario.seed), found.front().c_str());
    if (!is_one) return;
    if (!arguments.trace) std::fputs(describe(scenario).c_str(), stdout);
    for (const std::string& each : found) std::printf("  %s\n", each.c_str());
  }

  [[nodiscard]] std::uint64_t violations() const noexcept { return violations_; }
  [[nodiscard]] std::string summary() const {
    return fmt::format("{} runs, {} interleavings, {} faults, {} violations", runs_, interleavings_.size(), faults_,
                       violations_);
  }

 private:
  std::uint64_t runs_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t violations_ = 0;
  std::unordered_set<std::uint64_t> interleavings_;  // by the hash of their history
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse({argv + 1, argv + argc});
  Search search;
  if (!arguments.kept.empty()) {
    std::ifstream file(arguments.kept);
    if (!file) refuse(fmt::format("--kept {}: cannot be read", arguments.kept));
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      const Arguments kept = parse({std::istream_iterator<std::string>(words), {}});
      if (kept.is_one) {
        search.look_at(scenario_of(*kept.first, kept.limits), kept, false);
      } else if (words.str().find_first_not_of(' ') != std::string::npos) {
        refuse(fmt::format("--kept {}: a line without --seed: {}", arguments.kept, line));
      }
    }
  }
  const std::uint64_t first = arguments.first ? *arguments.first : std::random_device()() * std::uint64_t{1'000'000};
  std::printf("first seed: %llu\n", static_cast<unsigned long long>(first));
  const auto begin = std::chrono::steady_clock::now();
  const auto goes_on = [&](std::uint64_t runs) {
    if (arguments.stops && search.violations() > 0) return false;
    if (arguments.is_one) return runs == 0;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return arguments.seconds > 0 ? taken.count() < arguments.seconds : runs < arguments.runs;
  };
  for (std::uint64_t runs = 0; goes_on(runs); ++runs)
    search.look_at(scenario_of(first + runs, arguments.limits), arguments, arguments.is_one);
  std::printf("%s\n", search.summary().c_str());
  return search.violations() > 0 ? 1 : 0;
}
