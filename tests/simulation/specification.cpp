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

/// Whether the text is the error of a send or receive.
bool is_of_message(std::string_view text) {
  return text.starts_with("send #") || text.starts_with("recv #") || text.starts_with("message #");
}

/// The error that a rank has told others by `abort`, or `text`.
std::string told(const std::string& text) {
  if (!text.starts_with("rank ")) return text;
  for (std::size_t at = text.find(" failed at "); at != std::string::npos; at = text.find(": ", at + 1)) {
    const std::string rest = text.substr(at + 2);
    if (rest.starts_with("operation #") || is_of_message(rest)) return rest;
  }
  return text;
}

/// "operation #4 of communicator": the operation that an error names; empty if it names none.
std::string operation_in(const std::string& text) {
  const std::size_t at = text.find("operation #");
  return at == std::string::npos ? std::string() : text.substr(at, text.find(',', at) - at);
}

std::string communicator_of(const std::string& operation) {
  return operation.substr(std::min(operation.find(" of "), operation.size()));
}

/// Calls `use` with the place and the ranks of each clause "; ranks 3, 5 wait in ..." of the text.
template <class Use>
void each_wait(const std::string& text, const Use& use) {
  for (std::size_t at = text.find("; rank"); at != std::string::npos; at = text.find("; rank", at + 1)) {
    const std::size_t list = text.find(' ', at + 2) + 1;
    std::vector<int> ranks;
    read_list(text, list, ranks);
    if (text.substr(std::min(text.find_first_not_of("0123456789, ", list), text.size())).starts_with("wait"))
      use(at, ranks);
  }
}

/// What the text says of the operation in which the rank waits; empty if it says nothing.
std::string wait_of(const std::string& text, int rank) {
  std::string wait;
  each_wait(text, [&](std::size_t at, const std::vector<int>& ranks) {
    if (contains(ranks, rank)) wait = text.substr(at, text.find("; rank", at + 1) - at);
  });
  return wait;
}

/// The ranks for which a rank waits according to `wait_of`; both ends of a message.
std::vector<int> awaited_in(const std::string& wait) {
  std::vector<int> ranks;
  for (const std::string_view before : {", for rank ", ", for ranks ", " from rank ", " to rank "}) {
    if (const std::size_t at = wait.find(before); at != std::string::npos) read_list(wait, at + before.size(), ranks);
  }
  return ranks;
}

class Judge {
 public:
  Judge(const Scenario& scenario, const Report& report) : scenario_(scenario), report_(report) {
    has_messages_ = std::any_of(scenario.operations.begin(), scenario.operations.end(),
                                [](const Operation& each) { return each.kind == Kind::messages; });
    has_steps_ = std::any_of(scenario.operations.begin(), scenario.operations.end(),
                             [](const Operation& each) { return each.way == Way::step; });
    for (std::size_t k = 0; k < scenario.operations.size(); ++k) {
      if (!scenario.operations[k].makes_communicator()) continue;
      const std::vector<std::vector<int>> all = parts(scenario, scenario.operations[k]);
      for (std::size_t i = 0; i < all.size(); ++i)
        parts_.emplace_back(" of " + name_of_part(static_cast<int>(k), i), all[i]);
    }
    for (const Fault& fault : scenario.faults) {
      const auto since = report.ranks[static_cast<std::size_t>(fault.rank)].fault_at;
      if (!is_fatal(fault, scenario) || !since) continue;
      culprits_.push_back(fault.rank);
      latest_fault_ = std::max(latest_fault_, *since);
      first_operation_ = std::min(first_operation_, scenario.first_open(fault.operation));
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
    // the data of a message may be lost with a sender that has completed its part of it
    if (failure.operation < first_operation_ && !is_of_message(failure.text))
      add("rank {} fails in operation {}, before every fault: {}", rank, failure.operation, failure.text);
    if (failure.at > latest_fault_ + time_to_notice(failure)) {
      add("rank {} fails {:.3f} s after the last fault: {}", rank,
          std::chrono::duration<double>(failure.at - latest_fault_).count(), failure.text);
    }
    judge_names(rank, failure, culprits_);
  }

  /// Ranks that recover at once do so without those that take no part any more. A late rank may come too late. One that
  /// has waited for a message, which no abort ends, comes when the others give up: only their time is checked then.
  void judge_recovery(int rank, const Outcome& seen) {
    std::vector<int> missing;
    for (const Fault& fault : scenario_.faults) {
      if (contains(culprits_, fault.rank) && fault.kind != FaultKind::aborts && fault.kind != FaultKind::calls_other)
        missing.push_back(fault.rank);
    }
    const Failure& failure = *seen.after;
    if (!scenario_.recovers_at_once || (missing.empty() && !has_messages_))
      return add("rank {}: after recover: {}", rank, failure.text);
    if (contains(missing, rank)) return;
    if (!has_messages_) judge_names(rank, failure, missing);
    const auto begin = seen.failure ? seen.failure->at : latest_fault_;
    if (failure.at > begin + time_to_notice(failure))
      add("rank {} fails to recover {:.3f} s after its failure: {}", rank,
          std::chrono::duration<double>(failure.at - begin).count(), failure.text);
  }

  /// How long after the last fault the others fail at the latest. A rank that says itself that it takes no further
  /// part, or whose end another rank of its node has seen in an operation of the same communicator, needs no deadline.
  [[nodiscard]] std::chrono::nanoseconds time_to_notice(const Failure& failure) const {
    const std::vector<int>* const part = part_in(failure.text);
    const auto needs_deadline = [this, part](const Fault& fault) {
      if (!contains(culprits_, fault.rank)) return false;
      if (has_messages_) return true;
      if (fault.kind == FaultKind::dies) {
        for (int rank = 0; rank < scenario_.ranks(); ++rank) {
          const auto node = [&](int each) { return scenario_.node_leaders[static_cast<std::size_t>(each)]; };
          const bool is_in_communicator = part == nullptr || contains(*part, rank);
          if (node(rank) == node(fault.rank) && is_in_communicator && !contains(culprits_, rank) &&
              outcome(rank).failure)
            return false;
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
    const std::vector<int>* const part = part_in(failure.text);
    std::vector<int> names = blamed(told(failure.text));
    if (part != nullptr) {
      for (int& name : names) name = rank_of(*part, name);
    }
    const auto is_culprit = [&culprits](int name) { return contains(culprits, name); };
    const bool names_culprit = std::any_of(names.begin(), names.end(), is_culprit);
    if (failure.code == Code::mismatch) {  // the text compares two calls, one of which may be right
      if (!names_culprit) add("rank {} names no culprit: {}", rank, failure.text);
      return;
    }
    const auto has_failed = [this](int name) { return name >= 0 && outcome(name).failure.has_value(); };
    // a rank that waits in an operation of another communicator, or for a message, has not come, either
    const auto may_be_named = [&](int name) {
      if (is_culprit(name)) return true;
      if (is_of_message(told(failure.text))) return has_failed(name);
      const std::string wait = wait_of(failure.text, own_number(part, name));
      if ((parts_.empty() && !has_messages_ && !has_steps_) || wait.empty()) return false;
      std::vector<int> awaited = awaited_in(wait);
      if (const std::vector<int>* const other = part_in(wait)) {
        for (int& each : awaited) each = rank_of(*other, each);
      }
      return names_culprit || std::any_of(awaited.begin(), awaited.end(), is_culprit);
    };
    // a rank that tells its error to others, "rank 3 failed at ...: operation #4 ...", is not to blame for it
    const bool is_told = told(failure.text) != failure.text;
    if (is_told && !failure.text.starts_with(fmt::format("rank {} failed at ", failure.rank)))
      add("rank {} blames rank {}, which has not told it its error: {}", rank, failure.rank, failure.text);
    if (!is_told && !may_be_named(part == nullptr ? failure.rank : rank_of(*part, failure.rank)))
      add("rank {} blames rank {}, which did its part: {}", rank, failure.rank, failure.text);
    for (const int name : names) {
      if (!may_be_named(name)) add("rank {} names rank {}, which did its part: {}", rank, name, failure.text);
    }
  }

  /// The ranks of the communicator that an operation of the job has made, if the text is of one.
  [[nodiscard]] const std::vector<int>* part_in(const std::string& text) const {
    for (const auto& [name, ranks] : parts_) {
      if (operation_in(text).ends_with(name)) return &ranks;
    }
    return nullptr;
  }
  /// The number of a rank in the communicator of `part`; null: in the first one.
  [[nodiscard]] static int own_number(const std::vector<int>* part, int rank) {
    if (part == nullptr) return rank;
    return static_cast<int>(std::find(part->begin(), part->end(), rank) - part->begin());
  }
  [[nodiscard]] static int rank_of(const std::vector<int>& part, int rank) {
    return rank >= 0 && rank < static_cast<int>(part.size()) ? part[static_cast<std::size_t>(rank)] : -1;
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
      if (is_of_message(told(outcome(rank).failure->text))) continue;  // of two ranks alone
      compare(common_part(told(outcome(rank).failure->text)), scenario_.node_leaders[static_cast<std::size_t>(rank)]);
    }
    std::vector<std::string> operations;
    for (const Said& said : said_) {
      const std::string operation = operation_in(said.text);
      if (std::find(operations.begin(), operations.end(), operation) == operations.end())
        operations.push_back(operation);
    }
    for (const std::string& operation : operations) {
      const auto is_of_same = [&](const std::string& other) {
        return communicator_of(other) == communicator_of(operation);
      };
      if (std::count_if(operations.begin(), operations.end(), is_of_same) > 2)
        return add("ranks name {} operations: {}", operations.size(), fmt::join(operations, " | "));
    }
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
  /// The communicators that operations make: how their names end in an error, and their ranks.
  std::vector<std::pair<std::string, std::vector<int>>> parts_;
  bool has_messages_ = false;
  bool has_steps_ = false;
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
  if (is_of_message(common)) {  // "send #0 of communicator from rank 1 to rank 2, ..."
    const std::size_t ends = std::min(common.find(" from rank "), common.size());
    common.erase(ends, std::min(common.find_first_of(",:", ends), common.size()) - ends);
  }
  std::size_t first_wait = common.size();
  each_wait(common, [&](std::size_t at, const std::vector<int>&) { first_wait = std::min(first_wait, at); });
  common.resize(first_wait);
  return common;
}

}  // namespace lockstep::simulation
