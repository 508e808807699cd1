// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Each public call while a resource of one rank runs out: for each kind of resource, at its first, second, ... taking
// in the call. The trials of a call run in a process of their own, so that one that ends the process is a result, too.

#include "shortages/resources.hpp"
#include "shortages/trial.hpp"
#include "virtual_time/stack.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::shortages {
namespace {

struct Arguments {
  std::string call;  // empty: all
  std::string kind;  // empty: all
  long k = -1;       // negative: all
  bool is_quick = false;
  bool lists = false;
};

/// The numbers of the calls that fail, of `count`: the first, and then ever fewer.
std::vector<long> chosen(long count, const Arguments& arguments) {
  if (arguments.k >= 0) return {arguments.k};
  const long all_up_to = arguments.is_quick ? 3 : 50;
  const long most_later = arguments.is_quick ? 3 : 100;
  const long step = std::max(1L, (count - all_up_to) / most_later);
  std::vector<long> numbers;
  for (long k = 0; k < count; k += k < all_up_to ? 1 : step) numbers.push_back(k);
  if (count > 0 && numbers.back() != count - 1) numbers.push_back(count - 1);
  return numbers;
}

/// To which the process of a row writes lines, before and after each trial.
int to_parent = -1;

void tell(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  if (::write(to_parent, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::_Exit(2);
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Whether the trial leaves something behind each time.
std::string leaks(const Row& row, Kind kind, long k, const Trial& first) {
  const auto grew = [](const Held& more) { return more.allocations > 0 || more.mappings > 0 || more.descriptors > 0; };
  if (!grew(first.more)) return {};
  Held least = first.more;
  for (int again = 0; again < 2; ++again) {
    const Held more = run_trial(row, kind, k).more;
    least = {std::min(least.allocations, more.allocations), std::min(least.mappings, more.mappings),
             std::min(least.descriptors, more.descriptors)};
  }
  if (!grew(least)) return {};
  return fmt::format("leaks {} allocations, {} mappings, {} descriptors", std::max(least.allocations, 0L),
                     std::max(least.mappings, 0L), std::max(least.descriptors, 0L));
}

/// In the process of the row: all trials from kind `first_kind` and number `first_k` on.
void run_row(const Row& row, const Arguments& arguments, std::size_t first_kind, long first_k) {
  for (int warm = 0; warm < 2; ++warm) {
    const Trial trial = run_trial(row, Kind::memory, std::nullopt);
    if (!trial.complaints.empty() && warm == 1) {
      for (const std::string& text : trial.complaints) tell("broken " + one_line(text));
      return;
    }
  }
  const auto counted_calls = run_trial(row, Kind::memory, std::nullopt).counted;
  for (std::size_t number = first_kind; number < kinds; ++number) {
    const auto kind = static_cast<Kind>(number);
    if (!arguments.kind.empty() && arguments.kind != to_string(kind)) continue;
    for (const long k : chosen(counted_calls[number], arguments)) {
      if (number == first_kind && k < first_k) continue;
      tell(fmt::format("begin {} {}", number, k));
      Trial trial = run_trial(row, kind, k);
      const std::string leak = leaks(row, kind, k, trial);
      if (!leak.empty()) trial.complaints.push_back(leak);
      std::string elsewhere = "passed";
      for (std::size_t rank = 1; rank < trial.outcomes.size(); ++rank) {
        if (trial.outcomes[rank].kind != "passed") elsewhere = trial.outcomes[rank].kind;
      }
      if (arguments.k >= 0) {
        for (const Outcome& outcome : trial.outcomes) tell("say " + one_line(outcome.kind + ": " + outcome.text));
      }
      for (const std::string& text : trial.complaints) tell("red " + one_line(text));
      tell(fmt::format("end {}{}", trial.outcomes.front().kind,
                       trial.outcomes.size() > 1 ? " / " + elsewhere + " elsewhere" : ""));
    }
  }
  tell("done");
}

struct Cell {
  long tried = 0;
  long red = 0;
  std::map<std::string, long> outcomes;
  std::vector<std::string> complaints;

  void add(const std::vector<std::string>& of_trial) {
    if (of_trial.empty()) return;
    ++red;
    complaints.insert(complaints.end(), of_trial.begin(), of_trial.end());
  }
};

struct Totals {
  long tried = 0;
  long red = 0;
};

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("the process was ended by signal {}", WTERMSIG(status));
  return fmt::format("the process ended with status {}", WEXITSTATUS(status));
}

/// The last lines of the file to which the process of a row wrote its errors, without the frames of a stack that are
/// not of the library.
std::string last_lines(const std::string& path, std::size_t count) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const auto has = [&line](const char* part) { return line.find(part) != std::string::npos; };
    const bool is_frame = line.starts_with("  #");
    if (is_frame && count < 100 &&
        (has("lockstep::shortages") || has("lockstep::test") || has(".so") || has("std::") || has("[clone")))
      continue;
    lines.push_back("      " + line.substr(0, 180));
  }
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

void print(const Row& row, std::size_t kind, const Cell& cell) {
  std::string outcomes;
  for (const auto& [outcome, count] : cell.outcomes)
    outcomes += fmt::format("{}{} {}", outcomes.empty() ? "" : ", ", count, outcome);
  fmt::print("{}, {}: {} tried: {}; {} red\n", row.name, to_string(static_cast<Kind>(kind)), cell.tried, outcomes,
             cell.red);
  for (const std::string& text : cell.complaints) std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void try_row(const Row& row, const Arguments& arguments, Totals& totals) {
  std::map<std::size_t, Cell> cells;
  std::size_t kind = 0;
  long k = 0;
  bool is_done = false;
  while (!is_done) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const std::string log = fmt::format("/tmp/lockstep-shortages-{}.log", ::getpid());
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(file, 2);
      ::close(file);
      std::set_terminate([] {
        virtual_time::detail::print_line("std::terminate:");
        virtual_time::detail::print_this_stack();
        std::abort();
      });
      to_parent = ends[1];
      if (arguments.k >= 0) print_stacks_of_failures();
      run_row(row, arguments, kind, k);
      std::_Exit(0);
    }
    ::close(ends[1]);
    FILE* const lines = ::fdopen(ends[0], "r");
    bool is_open = false;  // a trial has begun and not ended
    std::vector<std::string> complaints;
    char buffer[4096];
    const auto complain = [&](const std::string& text) {
      complaints.push_back(fmt::format("  red at {}: {} (--call {} --kind {} --k {})", k, text, row.name,
                                       to_string(static_cast<Kind>(kind)), k));
    };
    while (std::fgets(buffer, sizeof buffer, lines) != nullptr) {
      std::string line(buffer, std::strlen(buffer) - (std::strchr(buffer, '\n') != nullptr ? 1 : 0));
      if (line.starts_with("begin ")) {
        std::istringstream(line.substr(6)) >> kind >> k;
        is_open = true;
        complaints.clear();
      } else if (line.starts_with("red ")) {
        complain(line.substr(4));
      } else if (line.starts_with("say ")) {
        std::printf("  %s\n", line.substr(4).c_str());
      } else if (line.starts_with("broken ")) {
        std::printf("%s does not pass: %s\n", row.name.c_str(), line.substr(7).c_str());
        ++totals.red;
        is_done = true;
      } else if (line.starts_with("end ")) {
        Cell& cell = cells[kind];
        ++cell.tried;
        ++cell.outcomes[line.substr(4)];
        cell.add(complaints);
        is_open = false;
      } else if (line == "done") {
        is_done = true;
      }
    }
    std::fclose(lines);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!is_done) {
      Cell& cell = cells[kind];
      if (!is_open) {
        std::printf("%s: %s before a trial\n%s", row.name.c_str(), end_of(status).c_str(), last_lines(log, 60).c_str());
        ++totals.red;
        is_done = true;
      } else {
        ++cell.tried;
        ++cell.outcomes["ended"];
        complain(end_of(status));
        complaints.push_back(last_lines(log, arguments.k >= 0 ? 200 : 20));
        cell.add(complaints);
        if (arguments.k >= 0) is_done = true;
        ++k;  // the next process goes on with the next one
      }
    }
    if (arguments.k >= 0) std::printf("%s", last_lines(log, 200).c_str());
    ::unlink(log.c_str());
  }
  for (const auto& [number, cell] : cells) {
    print(row, number, cell);
    totals.tried += cell.tried;
    totals.red += cell.red;
  }
}

int run(const Arguments& arguments) {
  std::vector<Row> rows = communicator_rows();
  for (auto* more : {strategy_rows, input_rows, checkpoint_rows}) {
    for (Row& row : more()) rows.push_back(std::move(row));
  }
  if (!arguments.call.empty()) std::erase_if(rows, [&](const Row& row) { return row.name != arguments.call; });
  Totals totals;
  for (const Row& row : rows) {
    if (arguments.lists) {
      std::printf("%s\n", row.name.c_str());
    } else {
      try_row(row, arguments, totals);
    }
  }
  std::printf("%zu calls, %zu kinds, %ld tried, %ld red\n", rows.size(), kinds, totals.tried, totals.red);
  return totals.red > 0 || totals.tried == 0 ? 1 : 0;
}

}  // namespace
}  // namespace lockstep::shortages

int main(int argc, char** argv) {
  using namespace lockstep::shortages;
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--quick") {
      arguments.is_quick = true;
    } else if (option == "--list") {
      arguments.lists = true;
    } else if (option == "--call" && has_value) {
      arguments.call = argv[++i];
    } else if (option == "--kind" && has_value && kind_of(argv[i + 1])) {
      arguments.kind = argv[++i];
    } else if (option == "--k" && has_value) {
      arguments.k = std::atol(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: shortages [--quick] [--list] [--call NAME] [--kind KIND] [--k N]\n");
      return 2;
    }
  }
  return run(arguments);
}
