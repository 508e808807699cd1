// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "diff/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace diff {
namespace {

/// Identifies a communicator in both runs: its name, its ranks in words, and its number among those with the same name
/// and ranks, in the order of creation.
using Key = std::tuple<std::string, std::string, int>;

/// One rank of a communicator, and its operations.
struct Member {
  const Log* log = nullptr;
  const Communicator* communicator = nullptr;

  [[nodiscard]] const Operation* operation(std::size_t k) const {
    return k < communicator->operations.size() ? &communicator->operations[k] : nullptr;
  }
  [[nodiscard]] const Call& call(const Operation& operation) const { return log->calls[operation.call]; }
};

/// A communicator of one run.
struct Group {
  std::vector<int> replicas;  // number of replicas of each rank
  std::map<int, Member> by_rank;

  [[nodiscard]] int replica_count() const { return std::accumulate(replicas.begin(), replicas.end(), 0); }
  /// The rank that owns `replica`, and the number of the replica on this rank.
  [[nodiscard]] std::pair<int, std::size_t> owner_of(int replica) const {
    int rank = 0;
    for (; replica >= replicas[static_cast<std::size_t>(rank)]; ++rank)
      replica -= replicas[static_cast<std::size_t>(rank)];
    return {rank, static_cast<std::size_t>(replica)};
  }
};

constexpr const char* all_ranks = "all ranks";

/// Communicators that have not all ranks of the job have their ranks in the key.
std::string scope_of(const Communicator& communicator, const Log& log) {
  const bool are_threads = communicator.job_ranks.empty();
  if (are_threads ? log.size == 1 : communicator.job_ranks.size() == static_cast<std::size_t>(log.size))
    return all_ranks;
  return are_threads ? fmt::format("threads of rank {}", log.rank)
                     : fmt::format("ranks {}", fmt::join(communicator.job_ranks, ", "));
}

/// "world", or "world (number 2)" for the second one of this name and these ranks.
std::string name_of(const Key& key) {
  const auto& [name, scope, number] = key;
  return number == 0 ? name : fmt::format("{} (number {})", name, number + 1);
}

bool has_operations(const Group& group) {
  return std::any_of(group.by_rank.begin(), group.by_rank.end(),
                     [](const auto& member) { return !member.second.communicator->operations.empty(); });
}

std::map<Key, Group> groups_of(const Run& run) {
  std::map<Key, Group> groups;
  for (const Log& log : run.logs) {
    std::map<std::tuple<std::string, std::string, int>, int> counts;
    for (const Communicator& communicator : log.communicators) {
      const std::string scope = scope_of(communicator, log);
      // the ranks of a communicator between threads are in one file
      const int own = communicator.job_ranks.empty() ? communicator.rank : 0;
      const int number = counts[{communicator.name, scope, own}]++;
      Group& group = groups[{communicator.name, scope, number}];
      if (!group.replicas.empty() && group.replicas != communicator.replicas)
        throw InputError(fmt::format("{}: the ranks have different layouts of {}", log.path, communicator.name));
      group.replicas = communicator.replicas;
      group.by_rank[communicator.rank] = {&log, &communicator};
    }
  }
  // the library has communicators of its own, whose calls are not logged
  std::erase_if(groups, [](const auto& group) { return !has_operations(group.second); });
  return groups;
}

/// The place where two runs differ.
struct Difference {
  std::size_t line = 0;  // line of the operation in the log of run A, or of run B
  std::string text;
};

/// One tensor of an operation.
struct Tensor {
  std::string hash;
  std::string type;
};

/// The tensor with number `index` of those of `item` on one rank. If `is_shared`, all tensors have equal contents, and
/// `index` may exceed their number. No value: there is no such tensor.
std::optional<Tensor> tensor_of(const Operation& operation, const Item& item, bool is_input, std::size_t index,
                                bool is_shared) {
  const auto& types = is_input ? item.inputs : item.outputs;
  const auto& hashes = is_input ? operation.inputs : operation.outputs;
  if (types.empty()) return std::nullopt;
  if (is_shared) index = std::min(index, types.size() - 1);
  if (index >= types.size()) return std::nullopt;
  return Tensor{hashes[(is_input ? item.first_input : item.first_output) + index], types[index]};
}

/// Compares one communicator of two runs.
class GroupComparison {
 public:
  GroupComparison(std::string name, const Group& a, const Group& b)
      : name_(std::move(name)), a_(a), b_(b), has_one_layout_(a.replicas == b.replicas) {}

  /// The first difference; no value if there is none.
  [[nodiscard]] std::optional<Difference> find() {
    for (std::size_t k = 0;; ++k) {
      if (auto difference = missing(k)) return difference;
      if (is_over_) return std::nullopt;
      if (auto difference = calls(k)) return difference;
      if (auto difference = tensors(k, true)) return difference;
      if (auto difference = tensors(k, false)) return difference;
      ++equal_;
    }
  }
  [[nodiscard]] std::size_t equal_operations() const { return equal_; }
  [[nodiscard]] std::size_t compared_hashes() const { return hashes_; }
  [[nodiscard]] std::size_t unknown_hashes() const { return unknown_; }

 private:
  /// The owners of one replica in both runs, and operation `k` of each of them.
  struct Pair {
    int rank_a = 0;
    int rank_b = 0;
    std::size_t local_a = 0;
    std::size_t local_b = 0;
    const Operation* a = nullptr;
    const Operation* b = nullptr;
    const Call* call_a = nullptr;
    const Call* call_b = nullptr;
  };
  [[nodiscard]] static std::pair<const Operation*, const Call*> operation_of(const Group& group, int rank,
                                                                             std::size_t k) {
    const auto found = group.by_rank.find(rank);
    if (found == group.by_rank.end()) return {nullptr, nullptr};
    const Operation* const operation = found->second.operation(k);
    return {operation, operation != nullptr ? &found->second.call(*operation) : nullptr};
  }
  [[nodiscard]] Pair pair_of_ranks(int rank_a, int rank_b, std::size_t k) const {
    Pair pair;
    pair.rank_a = rank_a;
    pair.rank_b = rank_b;
    std::tie(pair.a, pair.call_a) = operation_of(a_, rank_a, k);
    std::tie(pair.b, pair.call_b) = operation_of(b_, rank_b, k);
    return pair;
  }
  [[nodiscard]] Pair pair_of(int replica, std::size_t k) const {
    const auto [rank_a, local_a] = a_.owner_of(replica);
    const auto [rank_b, local_b] = b_.owner_of(replica);
    Pair pair = pair_of_ranks(rank_a, rank_b, k);
    pair.local_a = local_a;
    pair.local_b = local_b;
    return pair;
  }

  [[nodiscard]] std::string heading(const Pair& pair) const {
    const Operation& shown = pair.a != nullptr ? *pair.a : *pair.b;
    std::string number = fmt::format("#{}", shown.sequence);
    if (pair.a != nullptr && pair.b != nullptr && pair.a->sequence != pair.b->sequence)
      number = fmt::format("#{} in A, #{} in B", pair.a->sequence, pair.b->sequence);
    const Call& call = pair.a != nullptr ? *pair.call_a : *pair.call_b;
    std::string text = fmt::format("different: operation {} of {}, {}\n", number, name_, call.full_text());
    if (pair.call_a != nullptr && pair.call_b != nullptr && pair.call_a->place != pair.call_b->place)
      text += fmt::format("  in B at {}\n", pair.call_b->place);
    return text;
  }
  [[nodiscard]] std::string before(std::size_t k) const {
    if (k == 0) return "  it is the first operation of the communicator in the logs\n";
    const Pair last = pair_of(0, k - 1);
    return fmt::format("  before: {} operation{} of {} {} equal; the last one is #{}, {}\n", k, k == 1 ? "" : "s",
                       name_, k == 1 ? "is" : "are", last.a->sequence, last.call_a->full_text());
  }
  [[nodiscard]] static Difference difference(const Pair& pair, std::string text) {
    return {pair.a != nullptr ? pair.a->line : pair.b->line, std::move(text)};
  }

  /// Finds a rank that has no operation `k`. Sets is_over_ if no rank has it.
  [[nodiscard]] std::optional<Difference> missing(std::size_t k) {
    is_over_ = true;
    for (int replica = 0; replica < a_.replica_count(); ++replica) {
      const Pair pair = pair_of(replica, k);
      if (pair.a != nullptr || pair.b != nullptr) is_over_ = false;
      if ((pair.a == nullptr) == (pair.b == nullptr)) continue;
      const bool is_in_a = pair.a != nullptr;
      return difference(pair, heading(pair) +
                                  fmt::format("  rank {} of {} made this call, but rank {} of {} made none\n",
                                              is_in_a ? pair.rank_a : pair.rank_b, is_in_a ? "A" : "B",
                                              is_in_a ? pair.rank_b : pair.rank_a, is_in_a ? "B" : "A") +
                                  before(k));
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Difference> calls(std::size_t k) const {
    for (int replica = 0; replica < a_.replica_count(); ++replica) {
      const Pair pair = pair_of(replica, k);
      if (pair.a == nullptr || is_same_call(*pair.call_a, *pair.call_b)) continue;
      return difference(pair, heading(pair) +
                                  fmt::format("  rank {} in A calls {}\n  rank {} in B calls {}\n", pair.rank_a,
                                              pair.call_a->full_text(), pair.rank_b, pair.call_b->full_text()) +
                                  before(k));
    }
    return std::nullopt;
  }
  [[nodiscard]] bool is_same_call(const Call& a, const Call& b) const {
    // with another number of ranks, the root may be another rank
    return a.kind == b.kind && a.op == b.op && a.name == b.name && a.items.size() == b.items.size() &&
           (a.root == b.root || !has_one_layout_);
  }

  /// Compares all inputs, or all outputs, of operation `k`.
  [[nodiscard]] std::optional<Difference> tensors(std::size_t k, bool are_inputs) {
    std::optional<Difference> first;
    std::size_t others = 0;
    const auto note = [&](const Pair& pair, std::size_t item, const std::string& owner, const Tensor& in_a,
                          const Tensor& in_b) {
      if (std::exchange(others, others + 1) != 0) return;
      std::string text =
          heading(pair) + fmt::format("  the {} of {}{} differs: ", are_inputs ? "input" : "output",
                                      pair.call_a->items.size() > 1 ? fmt::format("item {} of ", item) : "", owner);
      if (in_a.type != in_b.type) {
        text += fmt::format("{} on rank {} in A, {} on rank {} in B\n", in_a.type, pair.rank_a, in_b.type, pair.rank_b);
      } else {
        text += fmt::format("{} with hash {} on rank {} in A, {} on rank {} in B\n", in_a.type, in_a.hash, pair.rank_a,
                            in_b.hash, pair.rank_b);
      }
      first = difference(pair, std::move(text));
    };
    for_each_tensor(k, are_inputs, note);
    if (!first) return first;
    if (others > 1)
      first->text += fmt::format("  {} other {}{} of this operation differ{}\n", others - 1,
                                 are_inputs ? "input" : "output", others == 2 ? "" : "s", others == 2 ? "s" : "");
    if (!are_inputs)
      first->text += "  all inputs of this operation are equal, so the operation itself gave another result\n";
    first->text += before(k);
    return first;
  }

  template <class Note>
  void for_each_tensor(std::size_t k, bool are_inputs, const Note& note) {
    const auto owners_in = [&](const Pair& pair) {
      return are_inputs ? pair.call_a->inputs_of : pair.call_a->outputs_of;
    };
    const auto compare_all = [&](const Pair& pair, const std::string& owner, std::size_t index_a, std::size_t index_b,
                                 bool is_shared) {
      for (std::size_t item = 0; item < pair.call_a->items.size(); ++item) {
        const auto in_a = tensor_of(*pair.a, pair.call_a->items[item], are_inputs, index_a, is_shared);
        const auto in_b = tensor_of(*pair.b, pair.call_b->items[item], are_inputs, index_b, is_shared);
        if (!in_a || !in_b) continue;  // an operation does not write to all ranks, such as the root of a broadcast
        const bool is_unknown = in_a->hash.empty() || in_b->hash.empty();
        ++(is_unknown ? unknown_ : hashes_);
        if (in_a->type != in_b->type || (in_a->hash != in_b->hash && !is_unknown))
          note(pair, item, owner, *in_a, *in_b);
      }
    };
    const Pair first = pair_of(0, k);
    if (first.a == nullptr) return;
    if (owners_in(first) == Owners::root) {
      const Pair root = pair_of_ranks(first.call_a->root, first.call_b->root, k);
      if (root.a != nullptr && root.b != nullptr) compare_all(root, "the root", 0, 0, false);
      return;
    }
    for (int replica = 0; replica < a_.replica_count(); ++replica) {
      const Pair pair = pair_of(replica, k);
      if (pair.a == nullptr) continue;
      const std::string owner = fmt::format("replica {}", replica);
      if (owners_in(pair) == Owners::replicas) compare_all(pair, owner, pair.local_a, pair.local_b, false);
      // each rank of a layout may have another number of outputs with the same contents
      if (owners_in(pair) == Owners::ranks) {
        for (std::size_t index = 0; index < most_outputs(pair); ++index) compare_all(pair, owner, index, index, true);
      }
    }
  }
  [[nodiscard]] static std::size_t most_outputs(const Pair& pair) {
    std::size_t most = 0;
    for (const Call* call : {pair.call_a, pair.call_b})
      for (const Item& item : call->items) most = std::max({most, item.inputs.size(), item.outputs.size()});
    return most;
  }

  const std::string name_;
  const Group& a_;
  const Group& b_;
  const bool has_one_layout_;
  bool is_over_ = false;
  std::size_t equal_ = 0;
  std::size_t hashes_ = 0;
  std::size_t unknown_ = 0;
};

std::string heading_of(const char* label, const Run& run) {
  return fmt::format("{}: job {}, {} rank{}, in {}\n", label, run.job(), run.size(), run.size() == 1 ? "" : "s",
                     run.path);
}

std::size_t failed_operations(const Run& run) {
  std::size_t failed = 0;
  for (const Log& log : run.logs)
    for (const Communicator& communicator : log.communicators) failed += communicator.failed;
  return failed;
}

/// What was not compared.
std::string notes_of(const Run& a, const Run& b, std::size_t others, std::size_t unknown) {
  std::string text;
  for (const auto& [label, run] : {std::pair("A", &a), std::pair("B", &b)}) {
    if (const std::size_t failed = failed_operations(*run); failed != 0)
      text += fmt::format("note: {} failed operation{} of {} {} not compared\n", failed, failed == 1 ? "" : "s", label,
                          failed == 1 ? "is" : "are");
  }
  if (others != 0)
    text += fmt::format(
        "note: {} communicator{} that {} not all ranks of the job {} not compared, since the runs have "
        "different numbers of ranks\n",
        others, others == 1 ? "" : "s", others == 1 ? "has" : "have", others == 1 ? "is" : "are");
  if (unknown != 0)
    text += fmt::format("note: {} tensor{} could not be read by a rank, and {} not compared\n", unknown,
                        unknown == 1 ? "" : "s", unknown == 1 ? "is" : "are");
  return text;
}

}  // namespace

Comparison compare(const Run& a, const Run& b) {
  const auto groups_a = groups_of(a);
  const auto groups_b = groups_of(b);
  std::optional<Difference> first;
  std::size_t compared = 0;
  std::size_t others = 0;
  std::size_t operations = 0;
  std::size_t hashes = 0;
  std::size_t unknown = 0;
  const bool has_one_size = a.size() == b.size();
  std::optional<Difference> lone;  // a communicator that only one run has
  const auto note_lone = [&](const Key& key, const char* run) {
    if (!has_one_size) {
      ++others;
    } else if (!lone) {
      lone = {0,
              fmt::format("different: only {} has operations of {} ({}), a communicator that the other run has not\n",
                          run, name_of(key), std::get<1>(key))};
    }
  };
  for (const auto& [key, group_b] : groups_b) {
    if (!groups_a.contains(key)) note_lone(key, "B");
  }
  for (const auto& [key, group_a] : groups_a) {
    const auto found = groups_b.find(key);
    if (found == groups_b.end() || (!has_one_size && std::get<1>(key) != all_ranks)) {
      note_lone(key, "A");
      continue;
    }
    if (group_a.replica_count() != found->second.replica_count()) {
      throw InputError(
          fmt::format("{} has {} replicas in A but {} in B; runs with different numbers of replicas cannot "
                      "be compared",
                      name_of(key), group_a.replica_count(), found->second.replica_count()));
    }
    ++compared;
    GroupComparison comparison(name_of(key), group_a, found->second);
    const auto difference = comparison.find();
    if (difference && (!first || difference->line < first->line)) first = difference;
    operations += comparison.equal_operations();
    hashes += comparison.compared_hashes();
    unknown += comparison.unknown_hashes();
  }
  if (!first) first = lone;
  if (compared == 0 && !first)
    throw InputError("the runs have no communicator in common that has all ranks of the job");
  const std::string text = heading_of("A", a) + heading_of("B", b);
  const std::string notes = notes_of(a, b, others, unknown);
  if (first) return {false, text + first->text + notes};
  return {true, text +
                    fmt::format("equal: {} operation{} of {} communicator{}, {} hashes\n", operations,
                                operations == 1 ? "" : "s", compared, compared == 1 ? "" : "s", hashes) +
                    notes};
}

}  // namespace diff
