// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// simulate [OPTION...]: runs simulated jobs, whose interleavings and faults follow from seeds, and checks what they
// show.

#include "races/races.hpp"
#include "simulation/cuts.hpp"
#include "simulation/job.hpp"
#include "simulation/marks.hpp"
#include "simulation/scenario.hpp"
#include "simulation/specification.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
namespace races = lockstep::races;

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
  --cut PART,...    leaves parts of the jobs out; --help-cuts lists them
  --with PART,...   of the jobs, only those that have these parts
  --kept FILE       first runs the seeds of a file: a line has the options of one run
  --stop            stops at the first violation
  --marks           prints how often each mark in a rare branch of the library was reached; one that was not is a failure

The last line is "N runs, N interleavings, N faults, N violations"; the exit code is 1 if there are violations.
)";

struct Arguments {
  std::uint64_t runs = 1000;
  double seconds = 0;
  std::optional<std::uint64_t> first;
  bool is_one = false;
  bool trace = false;
  bool stops = false;
  bool marks = false;
  std::string kept;
  Limits limits;
  std::vector<std::string> cuts;
  std::vector<std::string> needed;  ///< parts
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

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  return words;
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& option = words[i];
    if (option == "--help") {
      std::fputs(usage.data(), stdout);
      std::exit(0);
    }
    if (option == "--help-cuts") {
      std::puts(cuts_text.data());
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
    if (option == "--marks") {
      arguments.marks = true;
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
    } else if (option == "--cut") {
      arguments.cuts = words_of(value);
    } else if (option == "--with") {
      arguments.needed = words_of(value);
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

/// The scenario of a seed, without the parts that are cut.
Scenario scenario_of(std::uint64_t seed, const Arguments& arguments) {
  Scenario scenario = lockstep::simulation::scenario_of(seed, arguments.limits);
  for (const std::string& part : arguments.cuts) {
    // one list serves many seeds, and has parts that some of them do not have
    if (!cut(scenario, part) && arguments.is_one)
      refuse(fmt::format("--cut {}: the job of seed {} has no such part; --help-cuts lists them", part, seed));
  }
  return scenario;
}

/// The first of `needed` that the scenario has not; empty if it has all.
std::string missing_part(const Scenario& scenario, const std::vector<std::string>& needed) {
  if (needed.empty()) return "";
  const std::vector<std::string> parts = possible_cuts(scenario);
  const auto missing = std::find_if_not(needed.begin(), needed.end(), [&parts](const std::string& part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  });
  return missing == needed.end() ? "" : *missing;
}

/// Cuts a scenario that fails, as long as it still fails. Returns the cuts, separated by commas.
std::string reduce(Scenario scenario) {
  std::string cuts;
  for (bool is_smaller = true; is_smaller;) {
    is_smaller = false;
    for (const std::string& part : possible_cuts(scenario)) {
      Scenario smaller = scenario;
      if (!cut(smaller, part) || violations(smaller, run(smaller, false)).empty()) continue;
      scenario = smaller;
      cuts += (cuts.empty() ? "" : ",") + part;
      is_smaller = true;
      break;
    }
  }
  return cuts;
}

/// Prints how often each mark was reached. Returns whether all were.
bool print_marks() {
  bool all = true;
  for (const MarkCount& mark : mark_counts()) {
    std::printf("%10llu  %s%s\n", static_cast<unsigned long long>(mark.count), mark.name.data(),
                mark.count == 0 ? "  NOT REACHED" : "");
    all = all && mark.count > 0;
  }
  return all;
}

std::array<char, 64> end_text;  // of the run

/// Says in which run the process ends.
void say_where_it_ends(int signal) {
  static_cast<void>(!write(STDOUT_FILENO, end_text.data(), std::strlen(end_text.data())));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Search {
 public:
  /// `is_one`: prints the whole scenario and all violations.
  void look_at(const Scenario& scenario, const Arguments& arguments, bool is_one) {
    if (arguments.trace) std::fputs(describe(scenario).c_str(), stdout);
    std::fflush(stdout);
    std::snprintf(end_text.data(), end_text.size(), "seed %llu: the process ended\n",
                  static_cast<unsigned long long>(scenario.seed));
    const Report report = run(scenario, arguments.trace);
    ++runs_;
    interleavings_.insert(report.history);
    accesses_ += report.accesses;
    stale_loads_ += report.stale_loads;
    for (const Outcome& outcome : report.ranks) faults_ += outcome.fault_at ? 1 : 0;
    const std::vector<std::string> found = lockstep::simulation::violations(scenario, report);
    if (found.empty()) return;
    ++violations_;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(scenario.seed), found.front().c_str());
    if (!is_one && !arguments.stops) {
      std::string cuts = reduce(scenario);
      for (const std::string& part : std::vector(arguments.cuts.rbegin(), arguments.cuts.rend()))
        cuts = part + (cuts.empty() ? "" : ",") + cuts;
      if (!cuts.empty()) std::printf("  a smaller job that fails: the same options with --cut %s\n", cuts.c_str());
    }
    if (!is_one) return;
    if (!arguments.trace) std::fputs(describe(scenario).c_str(), stdout);
    for (const std::string& each : found) std::printf("  %s\n", each.c_str());
  }

  [[nodiscard]] std::uint64_t runs() const noexcept { return runs_; }
  [[nodiscard]] std::uint64_t violations() const noexcept { return violations_; }
  [[nodiscard]] std::string summary() const {
    const std::string memory =
        races::is_available()
            ? fmt::format("{} accesses to memory checked, {} loads of older values\n", accesses_, stale_loads_)
            : "";
    return memory + fmt::format("{} runs, {} interleavings, {} faults, {} violations", runs_, interleavings_.size(),
                                faults_, violations_);
  }

 private:
  std::uint64_t runs_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t violations_ = 0;
  std::uint64_t accesses_ = 0;
  std::uint64_t stale_loads_ = 0;
  std::unordered_set<std::uint64_t> interleavings_;  // by the hash of their history
};

/// Some memory of the library is allocated once in a process. With it, a seed allocates as often in the first run of a
/// process as in a later one. Returns the number of violations.
std::uint64_t run_without_faults() {
  Search search;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = scenario_of(seed, {});
    scenario.faults.clear();
    search.look_at(scenario, {}, false);
  }
  if (search.violations() > 0)
    std::printf("%llu violations in jobs without faults\n", static_cast<unsigned long long>(search.violations()));
  return search.violations();
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse({argv + 1, argv + argc});
  std::signal(SIGABRT, say_where_it_ends);
  std::signal(SIGSEGV, say_where_it_ends);
  if (run_without_faults() > 0) return 1;
  if (arguments.marks) count_marks();
  Search search;
  if (!arguments.kept.empty()) {
    std::ifstream file(arguments.kept);
    if (!file) refuse(fmt::format("--kept {}: cannot be read", arguments.kept));
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      const Arguments kept = parse({std::istream_iterator<std::string>(words), {}});
      if (kept.is_one) {
        search.look_at(scenario_of(*kept.first, kept), kept, false);
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
  const std::uint64_t runs_of_kept = search.runs();
  int skipped = 0;  // seeds, one after the other
  for (std::uint64_t seed = first; goes_on(search.runs() - runs_of_kept); ++seed) {
    const Scenario scenario = scenario_of(seed, arguments);
    if (const std::string missing = missing_part(scenario, arguments.needed); missing.empty()) {
      search.look_at(scenario, arguments, arguments.is_one);
      skipped = 0;
    } else if (constexpr int most = 100'000; arguments.is_one || ++skipped == most) {
      refuse(fmt::format("--with {}: {}", missing,
                         arguments.is_one ? "the job of this seed has no such part"
                                          : "100000 jobs in a row have not all of these parts"));
    }
  }
  const bool has_reached_all = !arguments.marks || print_marks();
  std::printf("%s\n", search.summary().c_str());
  return search.violations() > 0 || !has_reached_all ? 1 : 0;
}
