// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/specification.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace lockstep::simulation {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// Whether the fault makes the others fail, if its rank comes to it.
bool is_fatal(const Fault& fault, const Scenario& scenario) {
  return fault.kind != FaultKind::is_late || fault.delay > scenario.fail_after;
}

/// The numbers of a list of ranks, "3, 5, 7", from `at` on.
void read_list(std::string_view text, std::size_t at, std::vector<int>& ranks) {
  for (;;) {
    int number = 0;
    const std::size_t begin = at;
    for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at)
      number = number * 10 + (text[at] - '0');
    if (at == begin) return;
    if (!contains(ranks, number)) ranks.push_back(number);
    if (text.substr(at, 2) != ", ") return;
    at += 2;
  }
}

/// "operation #4": the operation that an error names; empty if it names none.
std::string operation_in(const std::string& text) {
  const std::size_t at = text.find("operation #");
  return at == std::string::npos ? std::string() : text.substr(at, text.find_first_not_of("0123456789", at + 11) - at);
}

class Judge {
 public:
  Judge(const Scenario& scenario, const Report& report) : scenario_(scenario), report_(report) {
    for (const Fault& fault : scenario.faults) {
      const auto since = report.ranks[static_cast<std::size_t>(fault.rank)].fault_at;
      if (!is_fatal(fault, scenario) || !since) continue;
      culprits_.push_back(fault.rank);
      latest_fault_ = std::max(latest_fault_, *since);
      first_operation_ = std::min(first_operation_, fault.operation);
    }
  }

  std::vector<std::string> all() {
    for (const races::Race& race : report_.races) {
      if (!is_of_stopped_work(race)) add("{}", race.text);
    }
    for (const std::string& hang : report_.hangs) add("does not end: {}", hang);
    for (int rank = 0; rank < scenario_.ranks(); ++rank) judge(rank);
    if (report_.hangs.empty()) compare();
    return std::move(found_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  [[nodiscard]] const Outcome& outcome(int rank) const { return report_.ranks[static_cast<std::size_t>(rank)]; }

  /// A rank that stops in its work goes on with it when the others have failed. It may then read inputs that their
  /// callers change, and its results are discarded. A rank that dies there also writes, since the simulation lets it go
  /// on in order to end it.
  [[nodiscard]] bool is_of_stopped_work(const races::Race& race) const {
    return std::any_of(race.sides.begin(), race.sides.end(), [this](const races::Race::Side& side) {
      return std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [&](const Fault& fault) {
        const bool is_its_rank = group_of(fault.rank) == side.group && outcome(fault.rank).fault_at;
        const bool may_access = fault.kind == FaultKind::dies || (fault.kind == FaultKind::stops && !side.is_write);
        return scenario_.has_mappings && is_its_rank && may_access;
      });
    });
  }

  void judge(int rank) {
    const Outcome& seen = outcome(rank);
    for (const std::string& wrong : seen.wrong) add("rank {}: a wrong result: {}", rank, wrong);
    if (seen.after) judge_recovery(rank, seen);
    const bool has_completed = seen.completed == static_cast<int>(scenario_.operations.size());
    if (!seen.failure) {
      const bool may_end = has_completed || contains(culprits_, rank);
      if (!may_end && report_.hangs.empty())
        add("rank {} has ended after {} operations without an error", rank, seen.completed);
      return;
    }
    const Failure& failure = *seen.failure;
    if (culprits_.empty()) return add("rank {} fails without a fault: {}", rank, failure.text);
    if (contains(culprits_, rank)) return;  // its own error may say what only this rank knows
    if (failure.operation < first_operation_)
      add("rank {} fails in operation {}, before every fault: {}", rank, failure.operation, failure.text);
    if (failure.at > latest_fault_ + time_to_notice()) {
      add("rank {} fails {:.3f} s after the last fault: {}", rank,
          std::chrono::duration<double>(failure.at - latest_fault_).count(), failure.text);
    }
    judge_names(rank, failure, culprits_);
  }

  /// Ranks that recover at once do so without those that take no part any more. A late rank may come too late.
  void judge_recovery(int rank, const Outcome& seen) {
    std::vector<int> missing;
    for (const Fault& fault : scenario_.faults) {
      if (contains(culprits_, fault.rank) && fault.kind != FaultKind::aborts && fault.kind != FaultKind::calls_other)
        missing.push_back(fault.rank);
    }
    const Failure& failure = *seen.after;
    if (!scenario_.recovers_at_once || missing.empty()) return add("rank {}: after recover: {}", rank, failure.text);
    if (contains(missing, rank)) return;
    judge_names(rank, failure, missing);
    const auto begin = seen.failure ? seen.failure->at : latest_fault_;
    if (failure.at > begin + time_to_notice())
      add("rank {} fails to recover {:.3f} s after its failure: {}", rank,
          std::chrono::duration<double>(failure.at - begin).count(), failure.text);
  }

  /// How long after the last fault the others fail at the latest. A rank that says itself that it takes no further
  /// part, or whose end another rank of its node has seen in an operation, needs no deadline.
  [[nodiscard]] std::chrono::nanoseconds time_to_notice() const {
    const auto needs_deadline = [this](const Fault& fault) {
      if (!contains(culprits_, fault.rank)) return false;
      if (fault.kind == FaultKind::dies) {
        for (int rank = 0; rank < scenario_.ranks(); ++rank) {
          const auto node = [&](int each) { return scenario_.node_leaders[static_cast<std::size_t>(each)]; };
          if (node(rank) == node(fault.rank) && !contains(culprits_, rank) && outcome(rank).failure) return false;
        }
      }
      return fault.kind == FaultKind::dies || fault.kind == FaultKind::stops || fault.kind == FaultKind::is_late;
    };
    if (std::any_of(scenario_.faults.begin(), scenario_.faults.end(), needs_deadline))
      return 2 * scenario_.fail_after + std::chrono::seconds(1);
    std::chrono::nanoseconds time = std::chrono::seconds(1) + 20 * scenario_.delays.slowest();
    for (const Fault& fault : scenario_.faults)
      time += is_fatal(fault, scenario_) ? std::chrono::milliseconds(0) : lateness(scenario_, fault);
    return time;
  }

  void judge_names(int rank, const Failure& failure, const std::vector<int>& culprits) {
    const std::vector<int> names = blamed(failure.text);
    const auto is_culprit = [&culprits](int name) { return contains(culprits, name); };
    if (failure.code == Code::mismatch) {  // the text compares two calls, one of which may be right
      if (std::none_of(names.begin(), names.end(), is_culprit)) add("rank {} names no culprit: {}", rank, failure.text);
      return;
    }
    if (!is_culprit(failure.rank))
      add("rank {} blames rank {}, which did its part: {}", rank, failure.rank, failure.text);
    for (const int name : names) {
      if (!is_culprit(name)) add("rank {} names rank {}, which did its part: {}", rank, name, failure.text);
    }
  }

  /// Ranks that did their part and fail in the same operation say the same, but for two culprits on two nodes. A rank
  /// that has completed it may fail in the next one, at the same time, before it has heard of the failure.
  void compare() {
    // a culprit that makes another call tells the other one's failure in terms of its own call
    const auto calls_other = [this](const Fault& fault) {
      return fault.kind == FaultKind::calls_other && contains(culprits_, fault.rank);
    };
    if (culprits_.size() > 1 && std::any_of(scenario_.faults.begin(), scenario_.faults.end(), calls_other)) return;
    for (int rank = 0; rank < scenario_.ranks(); ++rank) {
      if (contains(culprits_, rank) || !outcome(rank).failure) continue;
      compare(common_part(outcome(rank).failure->text), scenario_.node_leaders[static_cast<std::size_t>(rank)]);
    }
    std::vector<std::string> operations;
    for (const Said& said : said_) {
      const std::string operation = operation_in(said.text);
      if (std::find(operations.begin(), operations.end(), operation) == operations.end())
        operations.push_back(operation);
    }
    if (operations.size() > 2) add("ranks name {} operations: {}", operations.size(), fmt::join(operations, " | "));
  }

  void compare(const std::string& text, int node) {
    bool is_new = true;
    for (const Said& said : said_) {
      if (operation_in(said.text) != operation_in(text)) continue;
      is_new = is_new && said.node != node;
      // the failures of two culprits may cross on their way between nodes
      if (said.text != text && (said.node == node || culprits_.size() == 1))
        add("two ranks say different things: {} | {}", said.text, text);
    }
    if (is_new) said_.push_back({text, node});
  }

  const Scenario& scenario_;
  const Report& report_;
  std::vector<int> culprits_;
  std::chrono::nanoseconds latest_fault_{};
  int first_operation_ = std::numeric_limits<int>::max();
  /// What a rank of a node has said of an operation.
  struct Said {
    std::string text;
    int node;  ///< its leader
  };
  std::vector<Said> said_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> violations(const Scenario& scenario, const Report& report) {
  return Judge(scenario, report).all();
}

std::vector<int> blamed(const std::string& text) {
  const std::string common = common_part(text);
  std::vector<int> ranks;
  for (const std::string_view before : {"rank ", "ranks "}) {
    for (std::size_t at = common.find(before); at != std::string::npos; at = common.find(before, at + 1)) {
      read_list(common, at + before.size(), ranks);
    }
  }
  return ranks;
}

std::string common_part(const std::string& text) {
  std::string common = text;
  constexpr std::string_view not_called = ", which made this call too late or not at all";
  if (const std::size_t at = common.find(not_called); at != std::string::npos) common.erase(at, not_called.size());
  if (const std::size_t moved = common.find(" (moved "); moved != std::string::npos)
    common.erase(moved, common.find(')', moved) + 1 - moved);
  // "; rank 3 waits in ...", but not "; rank 3 has exited"
  for (std::size_t at = common.find("; rank "); at != std::string::npos; at = common.find("; rank ", at + 1)) {
    const std::size_t after = common.find_first_not_of("0123456789", at + 7);
    if (after != std::string::npos && common.compare(after, 9, " waits in") == 0) common.erase(at);
  }
  return common;
}

}  // namespace lockstep::simulation
