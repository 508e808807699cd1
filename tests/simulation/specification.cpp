// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/specification.hpp"

#include "collectives/engine/presence.hpp"
#include "simulation/error_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace lockstep::simulation {
namespace {

/// Whether the fault makes the others fail, if its rank comes to it.
bool is_fatal(const Fault& fault, const Scenario& scenario) {
  return fault.kind != FaultKind::is_late || fault.delay > scenario.fail_after;
}

class Judge {
 public:
  Judge(const Scenario& scenario, const Report& report) : scenario_(scenario), report_(report) {
    const auto is_elsewhere = [](const Operation& each) {
      return each.makes_communicator() || each.way == Way::step || each.kind == Kind::messages;
    };
    can_wait_elsewhere_ = std::any_of(scenario.operations.begin(), scenario.operations.end(), is_elsewhere);
    for (const Outcome& each : report.ranks) has_message_errors_ = has_message_errors_ || each.of_message;
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
      first_fault_ = std::min(first_fault_, *since);
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

  /// The leader of the node of the rank.
  [[nodiscard]] int node_of(int rank) const { return scenario_.node_leaders[static_cast<std::size_t>(rank)]; }
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

  [[nodiscard]] bool has_completed(const Outcome& seen) const {
    return seen.completed == static_cast<int>(scenario_.operations.size());
  }

  void judge(int rank) {
    const Outcome& seen = outcome(rank);
    for (const std::string& wrong : seen.wrong) add("rank {}: a wrong result: {}", rank, wrong);
    if (seen.after) judge_recovery(rank, seen);
    if (!seen.failure) {
      const bool may_end = has_completed(seen) || contains(culprits_, rank);
      if (!may_end && report_.hangs.empty())
        add("rank {} has ended after {} operations without an error", rank, seen.completed);
      return;
    }
    const Failure failure = with_number_of_job(rank, *seen.failure);
    if (culprits_.empty()) return add("rank {} fails without a fault: {}", rank, failure.text);
    if (contains(culprits_, rank)) return;  // its own error may say what only this rank knows
    // the data of a message may be lost with a sender that has completed its part of it
    const bool may_lack_data = seen.of_message || is_overtaken(failure);
    const bool is_before = failure.at < first_fault_ || (failure.operation < first_operation_ && !may_lack_data);
    if (is_before) add("rank {} fails in operation {}, before every fault: {}", rank, failure.operation, failure.text);
    if (failure.at > latest_fault_ + time_to_notice(failure)) {
      add("rank {} fails {:.3f} s after the last fault: {}", rank,
          std::chrono::duration<double>(failure.at - latest_fault_).count(), failure.text);
    }
    judge_names(rank, failure, culprits_);
    if (seen.of_message) judge_message(rank, *seen.of_message);
    judge_abort(rank, failure);
  }

  /// If the only fault is an abort, the others get its text.
  void judge_abort(int rank, const Failure& failure) {
    const auto is_other = [](const Fault& fault) { return fault.kind != FaultKind::aborts; };
    if (std::any_of(scenario_.faults.begin(), scenario_.faults.end(), is_other) || has_message_errors_) return;
    const auto is_its_text = [&failure](int culprit) {
      return failure.text.find(text_of_abort(culprit)) != std::string::npos;
    };
    if (failure.code != Code::unavailable || std::none_of(culprits_.begin(), culprits_.end(), is_its_text))
      add("rank {} does not get the text of an abort: {}", rank, failure.text);
  }

  /// Whether the error is that of a rank which has told others that it lacks memory.
  [[nodiscard]] bool tells_of_shortage(const Failure& failure) const {
    return failure.text.starts_with(fmt::format("rank {} failed", failure.rank)) &&
           failure.text.find("std::bad_alloc") != std::string::npos &&
           std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [this, &failure](const Fault& fault) {
             return fault.kind == FaultKind::lacks_memory && fault.rank == failure.rank && outcome(fault.rank).fault_at;
           });
  }

  /// A message fails only because of its other end. The end of a process of the same node is seen without a deadline.
  void judge_message(int rank, const Failure& failure) {
    const std::optional<Message> message = message_in(failure.text);
    if (!message && tells_of_shortage(failure)) return;  // also if a rank has no memory for its own message
    if (!message) return add("rank {} gets an error of another operation in a message: {}", rank, failure.text);
    for (const Fault& fault : scenario_.faults) {
      const Outcome& of_other = outcome(fault.rank);
      const auto gone_at = fault.kind == FaultKind::leaves ? of_other.left_at : of_other.fault_at;
      if (fault.rank != message->other || failure.code != Code::deadline_exceeded || !gone_at) continue;
      const bool is_departure = fault.kind == FaultKind::dies || (fault.kind == FaultKind::leaves &&
                                                                  failure.text.find(" to call ") != std::string::npos);
      if (is_departure && node_of(rank) == node_of(fault.rank) &&
          failure.at > *gone_at + std::chrono::milliseconds(1500))
        add("rank {} has not seen that rank {} has ended: {}", rank, fault.rank, failure.text);
    }
    for (int other = 0; other < scenario_.ranks(); ++other) {
      if (!outcome(other).of_message) continue;
      const std::string& text = outcome(other).of_message->text;
      const std::optional<Message> same = message_in(text);
      if (same && same->name == message->name && (same->has_mismatch || message->has_mismatch) && text != failure.text)
        add("the ends of a message say different things: {} | {}", failure.text, text);
    }
  }

  /// The operation of the message of which the error is, which another rank may have told.
  [[nodiscard]] int operation_of_message(const Failure& failure) const {
    const bool is_told = failure.rank >= 0 && told(failure.text) != failure.text;
    return is_told && outcome(failure.rank).of_message ? outcome(failure.rank).of_message->operation
                                                       : failure.operation;
  }

  /// Whether a rank has a reason not to make its part of a message of `operation`: it is a culprit, or has failed in an
  /// earlier operation, or in this one because of a rank with such a reason.
  [[nodiscard]] bool may_miss(int rank, int operation) const {
    for (int steps = 0; steps < scenario_.ranks(); ++steps) {
      if (contains(culprits_, rank)) return true;
      if (rank < 0 || !outcome(rank).failure) return false;
      const Failure& failure = *outcome(rank).failure;
      if (failure.operation < operation) return true;
      const std::optional<Message> message = message_in(failure.text);
      if (!message && told(failure.text) == failure.text) return true;  // of a collective, whose names are checked
      rank = message ? message->other : failure.rank;
    }
    return false;
  }

  /// As `may_miss`, of a message after `recover`, where the rank may have failed in a collective before it.
  [[nodiscard]] bool may_miss_after_recovery(int rank, const std::vector<int>& culprits) const {
    for (int steps = 0; steps < scenario_.ranks(); ++steps) {
      if (contains(culprits, rank)) return true;
      if (!outcome(rank).after) return false;
      const std::optional<Message> message = message_in(told(outcome(rank).after->text));
      if (!message) return true;  // of a collective, whose names are checked
      rank = message->other;
    }
    return false;
  }

  /// Ranks that recover at once do so without those that take no part any more. A late rank may come too late. One that
  /// has waited for a message, which no abort ends, comes when the others time out: only their time is checked then.
  /// A rank may lack memory only now, or in the last barrier, which others complete: these do not recover. It may also
  /// have had none for the error of its operation: then it has told the others of that, after the end of the epoch.
  void judge_recovery(int rank, const Outcome& seen) {
    std::vector<int> culprits;
    std::chrono::nanoseconds begin =
        std::max(seen.failure ? seen.failure->at : latest_fault_, seen.recovers_at.value_or(latest_fault_));
    for (const Fault& fault : scenario_.faults) {
      if (!contains(culprits_, fault.rank)) continue;
      const bool takes_part = fault.kind == FaultKind::aborts || fault.kind == FaultKind::calls_other ||
                              (fault.kind == FaultKind::lacks_memory && outcome(fault.rank).has_communicator);
      const bool has_fault_now = outcome(fault.rank).lacks_memory_in_recovery;
      if (!has_fault_now && (!scenario_.recovers_at_once || takes_part)) continue;
      culprits.push_back(fault.rank);
      begin = std::max(begin, *outcome(fault.rank).fault_at);  // it may leave after the others have begun
    }
    // without memory in the creation of a communicator, other ranks may have none, either
    const bool is_of_creation = any_lacks_communicator(culprits);
    for (int other = 0; other < scenario_.ranks() && is_of_creation; ++other) {
      if (!outcome(other).has_communicator && !contains(culprits, other)) culprits.push_back(other);
    }
    // a rank that waits for a message does not see that the other one has failed in a collective before
    const std::optional<Message> message = message_in(told(seen.after->text));
    bool needs_deadline = message.has_value();
    for (int other = 0; other < scenario_.ranks() && scenario_.recovers_at_once; ++other) {
      if (outcome(other).recovers_at || !has_completed(outcome(other)) || outcome(other).failure) continue;
      culprits.push_back(other);
      needs_deadline = true;
    }
    const std::chrono::nanoseconds time = needs_deadline ? time_of_deadline() : time_to_notice(*seen.after);
    const Failure& failure = *seen.after;
    const bool is_new = scenario_.recovers_at_once && !(seen.failure && tells_of_shortage(*seen.failure));
    if (is_new && tells_of_shortage(failure)) culprits.push_back(failure.rank);
    const bool can_miss_message = scenario_.recovers_at_once && has_message_errors_;
    if (culprits.empty() && !can_miss_message) return add("rank {}: after recover: {}", rank, failure.text);
    if (contains(culprits, rank)) return;
    if (!can_miss_message && !(message && may_miss_after_recovery(message->other, culprits)))
      judge_names(rank, failure, culprits);
    if (failure.at > begin + time)
      add("rank {} fails to recover {:.3f} s after its failure: {}", rank,
          std::chrono::duration<double>(failure.at - begin).count(), failure.text);
  }

  /// The ranks that an error names, in the numbers of the job.
  [[nodiscard]] std::vector<int> named_in(const Failure& failure) const {
    std::vector<int> names = blamed(told(failure.text));
    if (const std::vector<int>* const part = part_in(failure.text)) {
      for (int& name : names) name = rank_of(*part, name);
    }
    return names;
  }

  /// Whether the error of the rank names the culprit.
  [[nodiscard]] bool has_named(int rank, int culprit) const {
    return contains(named_in(with_number_of_job(rank, *outcome(rank).failure)), culprit);
  }

  /// Whether the rank has heard of an end, and may not have got what the rank that ended had sent before; a rank of the
  /// same node may still wait for others, which have to come by messages.
  [[nodiscard]] bool is_overtaken(const Failure& failure) const {
    const bool is_slow = scenario_.delays.slowest() > detail::Presence::message_time;
    return is_slow && scenario_.nodes() > 1 && failure.operation == first_operation_ - 1 &&
           std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                       [&](const Fault& fault) { return fault.kind == FaultKind::dies && fault.rank == failure.rank; });
  }

  [[nodiscard]] bool any_lacks_communicator(const std::vector<int>& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(), [this](int rank) { return !outcome(rank).has_communicator; });
  }

  [[nodiscard]] std::chrono::nanoseconds time_of_deadline() const {
    return 2 * scenario_.fail_after + std::chrono::seconds(1);
  }

  /// How long after the last fault the others fail at the latest. A rank that says itself that it takes no further
  /// part, or whose end another rank of its node has seen in an operation of the same communicator, needs no deadline.
  [[nodiscard]] std::chrono::nanoseconds time_to_notice(const Failure& failure) const {
    const std::vector<int>* const part = part_in(failure.text);
    const auto needs_deadline = [this, part](const Fault& fault) {
      if (!contains(culprits_, fault.rank)) return false;
      if (has_message_errors_) return true;
      if (fault.kind == FaultKind::dies) {
        for (int rank = 0; rank < scenario_.ranks(); ++rank) {
          const bool is_in_communicator = part == nullptr || contains(*part, rank);
          if (node_of(rank) == node_of(fault.rank) && is_in_communicator && !contains(culprits_, rank) &&
              outcome(rank).failure && (culprits_.size() == 1 || has_named(rank, fault.rank)))
            return false;
        }
      }
      return fault.kind == FaultKind::dies || fault.kind == FaultKind::stops || fault.kind == FaultKind::is_late;
    };
    if (std::any_of(scenario_.faults.begin(), scenario_.faults.end(), needs_deadline)) return time_of_deadline();
    std::chrono::nanoseconds time = std::chrono::seconds(1) + 20 * scenario_.delays.slowest();
    for (const Fault& fault : scenario_.faults)
      time += is_fatal(fault, scenario_) ? std::chrono::milliseconds(0) : lateness(scenario_, fault);
    return time;
  }

  void judge_names(int rank, const Failure& failure, const std::vector<int>& culprits) {
    const std::vector<int>* const part = part_in(failure.text);
    const std::vector<int> names = named_in(failure);
    const auto is_culprit = [&culprits](int name) { return contains(culprits, name); };
    const bool names_culprit = std::any_of(names.begin(), names.end(), is_culprit);
    const std::optional<Message> message = message_in(told(failure.text));
    if (failure.code == Code::mismatch ||
        (message && message->has_mismatch)) {  // the text compares two calls, one of which may be right
      if (!names_culprit) add("rank {} names no culprit: {}", rank, failure.text);
      return;
    }
    // a rank that waits in an operation of another communicator, or for a message, has not come, either
    std::vector<int> followed;
    const auto waits_for_culprit = [&](int name, const auto& same) -> bool {
      if (is_culprit(name)) return true;
      if (!can_wait_elsewhere_ || contains(followed, name)) return false;
      const std::string wait = wait_of(failure.text, own_number(part, name));
      const bool is_named = followed.empty();
      followed.push_back(name);
      if (wait.empty()) {  // the text says for whom another rank waits; the error of that one may go on
        if (is_named || name >= scenario_.ranks() || !outcome(name).of_message) return false;
        const std::optional<Message> own = message_in(outcome(name).of_message->text);
        return own && same(own->other, same);
      }
      // a long text may have no room for what ranks wait for
      constexpr std::size_t long_text = 250;
      const bool is_cut = wait.ends_with(" in other calls") && failure.text.size() > long_text;
      if (names_culprit || is_cut) return true;
      std::vector<int> awaited = awaited_in(wait);
      if (const std::vector<int>* const other = part_in(wait)) {
        for (int& each : awaited) each = rank_of(*other, each);
      }
      return std::any_of(awaited.begin(), awaited.end(), [&](int each) { return same(each, same); });
    };
    const auto may_be_named = [&](int name) {
      if (message && !is_culprit(name)) return name == message->other && may_miss(name, operation_of_message(failure));
      followed.clear();
      return waits_for_culprit(name, waits_for_culprit);
    };
    // a rank that tells its error to others, "rank 3 failed at ...: operation #4 ...", is not to blame for it
    const bool is_told = told(failure.text) != failure.text;
    if (is_told && !failure.text.starts_with(fmt::format("rank {} failed", failure.rank)))
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
  /// The error of `rank` with the number of the job, if it says that a rank lacks memory in an operation of a
  /// communicator that an operation has made, which it does not name.
  [[nodiscard]] Failure with_number_of_job(int rank, Failure failure) const {
    if (tells_of_shortage(failure)) return failure;
    const std::string of_other = told(failure.text);
    if (of_other != failure.text && failure.rank >= 0 && outcome(failure.rank).failure &&
        outcome(failure.rank).failure->text == of_other) {
      const Failure first = with_number_of_job(failure.rank, *outcome(failure.rank).failure);
      failure.text.replace(failure.text.size() - of_other.size(), of_other.size(), first.text);
      return failure;
    }
    for (const auto& [name, ranks] : parts_) {
      const bool is_of_operation = name.ends_with(fmt::format(" of {}", failure.operation));
      const std::string number = fmt::format("rank {}", failure.rank);
      if (!is_of_operation || !contains(ranks, rank) || !failure.text.starts_with(number)) continue;
      Failure of_job = failure;
      of_job.rank = rank_of(ranks, failure.rank);
      of_job.text.replace(0, number.size(), fmt::format("rank {}", of_job.rank));
      if (tells_of_shortage(of_job)) return of_job;
    }
    return failure;
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
    // if a rank waits for its message, it may do so just before others time out, so that the failures cross
    if ((culprits_.size() > 1 || has_message_errors_) &&
        std::any_of(scenario_.faults.begin(), scenario_.faults.end(), calls_other))
      return;
    for (int rank = 0; rank < scenario_.ranks(); ++rank) {
      if (contains(culprits_, rank) || !outcome(rank).failure) continue;
      const Failure failure = with_number_of_job(rank, *outcome(rank).failure);
      const bool is_of_message =
          message_in(told(failure.text)) || (outcome(rank).of_message && tells_of_shortage(failure));
      if (is_of_message) continue;  // only its two ends get this error
      if (any_lacks_communicator(culprits_) && failure.operation == 0)
        continue;  // the node of such a rank does not get its reason
      compare(common_part(told(failure.text)), node_of(rank));
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
  std::chrono::nanoseconds first_fault_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds latest_fault_{};
  int first_operation_ = std::numeric_limits<int>::max();
  /// The communicators that operations make: how their names end in an error, and their ranks.
  std::vector<std::pair<std::string, std::vector<int>>> parts_;
  bool has_message_errors_ = false;
  bool can_wait_elsewhere_ = false;  ///< in another communicator, or for a message
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

}  // namespace lockstep::simulation
