// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "explain/explanation.hpp"

#include "apps/options/name_ranks.hpp"
#include "explain/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace explain {
namespace {

/// The members that made each call at a position, the call of the most ranks first.
struct CallGroup {
  std::string call;
  std::vector<const Member*> members;

  [[nodiscard]] std::vector<int> ranks() const {
    std::vector<int> ranks;
    for (const Member* const member : members) ranks.push_back(member->rank);
    return ranks;
  }
  [[nodiscard]] const Operation& operation(Position position) const { return *members.front()->at(position); }
};

std::vector<CallGroup> calls_at(const History& history, Position position) {
  std::vector<CallGroup> groups;
  for (const Member& member : history.members) {
    const Operation* const operation = member.at(position);
    if (operation == nullptr) continue;
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const auto& each) { return each.call == operation->call; });
    if (found != groups.end()) {
      found->members.push_back(&member);
    } else {
      groups.push_back({operation->call, {&member}});
    }
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    if (a.members.size() != b.members.size()) return a.members.size() > b.members.size();
    return a.members.front()->rank < b.members.front()->rank;
  });
  return groups;
}

Position after(Position position) { return {position.first, position.second + 1}; }

/// Whether an operation like `first` was directly followed by one like `second`, on any rank, before `position`.
bool was_followed(const History& history, const Operation& first, const Operation& second, Position position) {
  for (const Member& member : history.members) {
    for (const auto& [at, operation] : member.operations) {
      const Operation* const next = member.at(after(at));
      if (next == nullptr || after(at) >= position) continue;
      if (operation->text() == first.text() && next->text() == second.text()) return true;
    }
  }
  return false;
}

/// The likely mistake of the ranks of `few`, which called something else than those of `most`.
std::string cause_of_difference(const History& history, Position position, const CallGroup& most,
                                const CallGroup& few) {
  const Operation& usual = most.operation(position);
  const Operation& other = few.operation(position);
  const std::string ranks = options::name_ranks(few.ranks());
  const Operation* const usual_next = most.members.front()->at(after(position));
  const Operation* const other_next = few.members.front()->at(after(position));
  if (usual_next != nullptr && other_next != nullptr && usual_next->call == other.call &&
      other_next->call == usual.call)
    return fmt::format("{} made the two calls in the opposite order", ranks);
  if (usual.kind == other.kind && !usual.place.empty() && usual.place == other.place)
    return fmt::format("the line is the same, but the arguments differ");
  if (was_followed(history, usual, other, position)) return fmt::format("{} left out {}", ranks, usual.text());
  if (was_followed(history, other, usual, position))
    return fmt::format("{} called {} once more than the others", ranks, other.text());
  return fmt::format("{} left out {}, or made the calls in another order", ranks, usual.text());
}

/// From where on the ranks of `few` called the same from other lines than those of `most`: a sign of a call that was
/// left out among equal ones. Empty if there is no such operation before `position`.
std::string shifted_lines(Position position, const Member& usual, const Member& other) {
  const Operation* first = nullptr;
  bool was_equal = false;
  for (const auto& [at, operation] : usual.operations) {
    if (at >= position) break;
    const Operation* const theirs = other.at(at);
    if (theirs == nullptr || at.first != position.first) continue;
    const bool is_equal = theirs->place == operation->place;
    was_equal = was_equal || is_equal;
    if (is_equal) {
      first = nullptr;
    } else if (first == nullptr && was_equal) {
      first = operation;
    }
  }
  if (first == nullptr) return {};
  const Operation& theirs = *other.at(position_of(*first));
  return fmt::format(
      "  note: already as operation {}, rank {} called {} where rank {} called {}; it may have left out a "
      "call there\n",
      number(position_of(*first)), other.rank, theirs.text(), usual.rank, first->text());
}

/// The last operation that all ranks completed before `position`.
std::string completed_before(const History& history, Position position) {
  for (const Member& member : history.members) {
    const Operation* last = nullptr;
    for (const auto& [at, operation] : member.operations) {
      if (at < position && operation->is_completed()) last = operation;
    }
    if (last != nullptr)
      return fmt::format("  before: all completed operation {}, {}\n", number(position_of(*last)), last->text());
  }
  return {};
}

std::string errors_at(const History& history, Position position) {
  RanksByText texts;
  for (const Member& member : history.members) {
    if (member.communicator == nullptr) continue;
    for (const Failure& failure : member.communicator->failures) {
      if (Position{failure.epoch, failure.sequence} == position) texts.add(failure.text, member.rank);
    }
  }
  std::string lines;
  for (const auto& group : texts.groups()) {
    if (lines.empty() || texts.groups().size() > 1) lines += fmt::format("  error: {}\n", group.text);
  }
  return lines;
}

/// The call after `since`, in any communicator, in which a rank waits or failed instead of coming to `here`.
std::string stuck_elsewhere(const Record& record, const Communicator& here, std::int64_t since) {
  for (const Communicator& communicator : record.communicators) {
    const bool is_here = &communicator == &here;
    for (const Operation& operation : communicator.operations) {
      const bool is_other = !is_here || !operation.is_collective();
      const bool waits = operation.state == "posted" || operation.state == "agreed";
      if (!is_other || operation.is_completed() || (!waits && operation.posted < since)) continue;
      return fmt::format("{} {}{}{} instead", state_of(operation), name_operation(operation), is_here ? "" : ", of ",
                         is_here ? "" : communicator.name);
    }
  }
  return {};
}

/// What is known of a rank that did not come.
std::string describe_missing(const Member& member) {
  if (member.record == nullptr)
    return "no file: it has ended, was killed or is stopped, or it has made no call since the others failed";
  const Operation* const last = member.last();
  std::string elsewhere = stuck_elsewhere(*member.record, *member.communicator, last != nullptr ? last->posted : 0);
  if (!elsewhere.empty()) return elsewhere;
  if (last == nullptr) return "has made no call";
  return fmt::format("made no call after operation {}, {}, {:.1f} s before its file was written",
                     number(position_of(*last)), last->text(), seconds_between(last->posted, member.record->written));
}

/// Ranks that called more than a second after the first one; the clocks of hosts may differ by less.
std::string late_calls(const History& history, Position position) {
  const Member* first = nullptr;
  for (const Member& member : history.members) {
    const Operation* const operation = member.at(position);
    if (operation != nullptr && (first == nullptr || operation->posted < first->at(position)->posted)) first = &member;
  }
  RanksByText late;
  for (const Member& member : history.members) {
    const Operation* const operation = member.at(position);
    const double delay = operation == nullptr ? 0 : seconds_between(first->at(position)->posted, operation->posted);
    if (delay > 1) late.add(fmt::format("called {:.0f} s after rank {}", delay, first->rank), member.rank);
  }
  return late.lines();
}

std::string explain_difference(const History& history, Position position) {
  const std::vector<CallGroup> groups = calls_at(history, position);
  const CallGroup& most = groups.front();
  const bool is_clear = most.members.size() > groups[1].members.size();
  std::vector<int> others;
  for (std::size_t k = 1; k < groups.size(); ++k) {
    for (const int rank : groups[k].ranks()) others.push_back(rank);
  }
  std::sort(others.begin(), others.end());
  std::string text = is_clear ? fmt::format("{}, operation {}: {} called something else than the others\n",
                                            history.name, number(position), options::name_ranks(others))
                              : fmt::format("{}, operation {}: the ranks called different operations\n", history.name,
                                            number(position));
  RanksByText calls;
  for (std::size_t k = groups.size(); k-- > 0;) {
    for (const Member* const member : groups[k].members) calls.add(member->at(position)->text(), member->rank);
  }
  text += calls.lines();
  RanksByText absent;
  for (const Member& member : history.members) {
    if (member.at(position) == nullptr) absent.add(describe_missing(member), member.rank);
  }
  text += absent.lines();
  text += late_calls(history, position);
  text += completed_before(history, position);
  text += fmt::format("  likely: {}\n", cause_of_difference(history, position, most, groups[1]));
  return text + shifted_lines(position, *most.members.front(), *groups[1].members.front());
}

std::string explain_missing(const History& history, Position position) {
  std::vector<int> missing;
  RanksByText states;
  const Member* present = nullptr;
  const Member* absent = nullptr;
  for (const Member& member : history.members) {
    if (const Operation* const operation = member.at(position)) {
      present = &member;
      states.add(fmt::format("{} {}", state_of(*operation), operation->text()), member.rank);
    } else if (member.record == nullptr || position >= member.first) {
      missing.push_back(member.rank);
      if (member.record != nullptr) absent = &member;
    }
  }
  for (const Member& member : history.members) {
    if (std::binary_search(missing.begin(), missing.end(), member.rank))
      states.add(describe_missing(member), member.rank);
  }
  const double waited = seconds_between(present->at(position)->posted, present->record->written);
  std::string text = fmt::format("{}, operation {}: {} {} missing\n", history.name, number(position),
                                 options::name_ranks(missing), missing.size() == 1 ? "is" : "are");
  text += states.lines();
  text += fmt::format("  rank {} had waited {:.1f} s when its file was written\n", present->rank, waited);
  text += errors_at(history, position);
  if (absent != nullptr) text += shifted_lines(position, *present, *absent);
  return text;
}

std::string explain_unfinished(const History& history, Position position) {
  RanksByText states;
  for (const Member& member : history.members) {
    if (const Operation* const operation = member.at(position)) {
      states.add(fmt::format("{} {}", state_of(*operation), operation->text()), member.rank);
    } else if (member.record == nullptr) {
      states.add("no file", member.rank);
    }
  }
  return fmt::format("{}, operation {}: all ranks made the same call, but it did not complete on all\n", history.name,
                     number(position)) +
         states.lines() + late_calls(history, position) + errors_at(history, position);
}

std::string explain_trouble(const History& history, const Finding& finding) {
  std::string text;
  switch (finding.trouble) {
    case Trouble::none: return {};
    case Trouble::different_calls: text = explain_difference(history, finding.position); break;
    case Trouble::missing_rank: text = explain_missing(history, finding.position); break;
    case Trouble::not_finished: text = explain_unfinished(history, finding.position); break;
  }
  const bool is_part = !std::equal(history.job_ranks.begin(), history.job_ranks.end(), history.members.begin(),
                                   [](int rank, const Member& member) { return rank == member.rank; });
  if (is_part)
    text += fmt::format("  its ranks are, in this order, {} of the job\n", options::name_ranks(history.job_ranks));
  if (finding.has_recovered) text += "  since then the ranks have completed other operations\n";
  return text;
}

/// Where the ranks of a communicator without trouble are.
std::string last_operations(const History& history) {
  RanksByText states;
  for (const Member& member : history.members) {
    const Operation* const last = member.last();
    if (member.record == nullptr) {
      states.add("no file", member.rank);
    } else if (last == nullptr) {
      states.add("no operation", member.rank);
    } else {
      states.add(fmt::format("{} operation {}, {}", last->state, number(position_of(*last)), last->text()),
                 member.rank);
    }
  }
  return fmt::format("{}, {} rank{}:\n", history.name, history.members.size(), history.members.size() == 1 ? "" : "s") +
         states.lines();
}

bool has_message(const Member& member, std::string_view kind, int peer, std::int64_t number) {
  if (member.communicator == nullptr) return false;
  const auto& all = member.communicator->operations;
  return std::any_of(all.begin(), all.end(), [&](const Operation& each) {
    return each.kind == kind && each.peer == peer && each.sequence == number;
  });
}

/// The messages between two ranks that wait or failed.
std::string explain_messages(const History& history) {
  RanksByText texts;
  for (const Member& member : history.members) {
    if (member.communicator == nullptr) continue;
    for (const Operation& operation : member.communicator->operations) {
      if (operation.is_collective() || operation.is_completed()) continue;
      const std::string_view counterpart = operation.kind == "send" ? "recv" : "send";
      const bool is_met = operation.peer < static_cast<int>(history.members.size()) &&
                          has_message(history.members[static_cast<std::size_t>(operation.peer)], counterpart,
                                      member.rank, operation.sequence);
      texts.add(fmt::format("{} {}{}", state_of(operation), name_operation(operation),
                            is_met ? "" : fmt::format("; rank {} has not called the {}", operation.peer, counterpart)),
                member.rank);
    }
  }
  return texts.groups().empty() ? "" : fmt::format("{}, messages between two ranks:\n", history.name) + texts.lines();
}

std::string heading(const Selection& selection) {
  const std::vector<Record>& records = selection.records;
  int size = 0;
  std::set<int> with_file;
  std::map<std::string, int> reasons;
  std::int64_t written = 0;
  for (const Record& record : records) {
    size = std::max(size, record.size);
    if (record.rank >= 0) with_file.insert(record.rank);
    ++reasons[record.reason.substr(0, record.reason.find(':'))];
    written = std::max(written, record.written);
  }
  std::string why;
  for (const auto& [reason, count] : reasons) why += (why.empty() ? "" : ", ") + reason;
  std::string text =
      fmt::format("job {}: {} file{} of {} rank{}, written {} ({})\n", records.front().job, records.size(),
                  records.size() == 1 ? "" : "s", std::max<std::size_t>(static_cast<std::size_t>(size), 1),
                  size > 1 ? "s" : "", wall_time(written), why);
  std::vector<int> without;
  for (int rank = 0; rank < size; ++rank) {
    if (with_file.count(rank) == 0) without.push_back(rank);
  }
  if (!without.empty() && !with_file.empty()) text += fmt::format("no file of {}\n", options::name_ranks(without));
  constexpr std::size_t named = 3;
  std::string others;
  for (std::size_t k = 0; k < std::min(selection.others.size(), named); ++k)
    others += (k == 0 ? "" : ", ") + selection.others[k];
  if (selection.others.size() > named) others += fmt::format(", {} more", selection.others.size() - named);
  if (!others.empty()) text += fmt::format("not read: files of other jobs ({}); choose one with --job\n", others);
  return text;
}

}  // namespace

std::string explain(const Selection& selection) {
  const std::vector<History> histories = merge(selection.records);
  std::string troubles;
  std::string messages;
  for (const History& history : histories) {
    const std::string trouble = explain_trouble(history, find_trouble(history));
    if (!trouble.empty()) troubles += "\n" + trouble;
    const std::string waiting = explain_messages(history);
    if (!waiting.empty()) messages += "\n" + waiting;
  }
  std::string text = heading(selection) + troubles + messages;
  if (!troubles.empty() || !messages.empty()) return text;
  text += "\nno difference: all ranks with files made the same calls, and none waits\n";
  for (std::size_t k = 0; k < std::min(histories.size(), most_lines); ++k) text += last_operations(histories[k]);
  return text;
}

}  // namespace explain
