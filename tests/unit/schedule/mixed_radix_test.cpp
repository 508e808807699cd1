// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Simulates the whole family: messages are delivered one by one on the values of all ranks, in one thread.

#include "schedule/mixed_radix.hpp"

#include <lockstep/base/error.hpp>

#include "schedule/canonical_tree.hpp"
#include "support/canonical_sum.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <queue>
#include <string>

namespace lockstep::detail {
namespace {

enum class Adding { along_the_tree, from_the_left };

/// The state of one element on a rank: tree nodes of its replicas in id order, with their values.
struct Known {
  std::vector<Block> blocks;
  std::vector<float> values;
};

struct Message {
  ElementRange elements;
  std::vector<Known> known;
};

/// Simulates a schedule on f32 values, `leaves[replica][element]`.
class Rehearsal {
 public:
  Rehearsal(const MixedRadix& schedule, const std::vector<std::vector<float>>& leaves, Adding adding)
      : schedule_(schedule),
        layout_(schedule.layout()),
        elements_(leaves.front().size()),
        adding_(adding),
        known_(static_cast<std::size_t>(layout_.ranks())) {
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      auto& mine = known_[static_cast<std::size_t>(rank)];
      mine.resize(elements_);
      const int first = layout_.first_replica[static_cast<std::size_t>(rank)];
      const int last = layout_.first_replica[static_cast<std::size_t>(rank) + 1];
      for (std::size_t e = 0; e < elements_; ++e) {
        Known raw;
        for (int replica = first; replica < last; ++replica) {
          raw.blocks.push_back({replica, replica + 1});
          raw.values.push_back(leaves[static_cast<std::size_t>(replica)][e]);
        }
        const std::vector<int> bounds{first, last};
        mine[e] = fold(stage_fold(bounds, layout_.replicas(), 0), raw);
      }
    }
    for (int stage = 0; stage < schedule.stages(); ++stage) forth(stage);
    for (int stage = schedule.stages() - 1; stage >= 0; --stage) back(stage);
  }

  /// The bits of every rank's result; empty if a rank does not have the root of every element.
  [[nodiscard]] std::optional<test::Bytes> result(int rank) const {
    test::Bytes bytes;
    for (const auto& known : known_[static_cast<std::size_t>(rank)]) {
      if (!known || known->blocks != std::vector<Block>{{0, layout_.replicas()}}) return std::nullopt;
      const auto* const begin = reinterpret_cast<const std::byte*>(known->values.data());
      bytes.insert(bytes.end(), begin, begin + sizeof(float));
    }
    return bytes;
  }
  [[nodiscard]] std::int64_t most_sent_elements() const {
    std::int64_t most = 0;
    for (const auto& [rank, sent] : sent_) most = std::max(most, sent);
    return most;
  }

 private:
  using Peers = std::pair<int, int>;

  [[nodiscard]] Known fold(const StageFold& plan, const Known& inputs) const {
    Known result;
    std::size_t next = 0;
    for (const auto& output : plan.outputs) {
      std::vector<float> stack;
      for (std::size_t i = 0; i < output.inputs; ++i, ++next) {
        stack.push_back(inputs.values[next]);
        const int merges = adding_ == Adding::along_the_tree ? output.merges[i] : (i > 0 ? 1 : 0);
        for (int m = 0; m < merges; ++m) {
          const float right = stack.back();
          stack.pop_back();
          stack.back() += right;
        }
      }
      result.blocks.push_back(output.block);
      result.values.push_back(stack.front());
    }
    EXPECT_EQ(next, inputs.values.size());
    return result;
  }

  void send(int rank, int peer, ElementRange elements) {
    Message message{elements, {}};
    for (std::int64_t e = elements.begin; e < elements.end; ++e) {
      const auto& known = known_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(e)];
      ASSERT_TRUE(known) << "rank " << rank << " sends element " << e << ", which it does not have";
      message.known.push_back(*known);
    }
    sent_[rank] += elements.size();
    under_way_[{rank, peer}].push(std::move(message));
  }
  [[nodiscard]] Message receive(int rank, int peer, ElementRange elements) {
    auto& queue = under_way_[{peer, rank}];
    EXPECT_FALSE(queue.empty()) << "rank " << rank << " waits for rank " << peer;
    if (queue.empty()) return {};
    Message message = std::move(queue.front());
    queue.pop();
    EXPECT_EQ(message.elements, elements) << "rank " << peer << " to rank " << rank;
    return message;
  }
  void expect_nothing_under_way() const {
    for (const auto& [peers, queue] : under_way_)
      EXPECT_TRUE(queue.empty()) << "rank " << peers.first << " to rank " << peers.second;
  }

  void forth(int stage) {
    std::vector<StageStep> steps;
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      steps.push_back(schedule_.step(rank, stage, {0, static_cast<std::int64_t>(elements_)}));
      for (const SliceStep& slice : steps.back().slices) {
        for (const auto& message : slice.sends) send(rank, message.peer, message.elements);
      }
    }
    for (int rank = 0; rank < layout_.ranks(); ++rank) take(rank, steps[static_cast<std::size_t>(rank)]);
    expect_nothing_under_way();
  }

  void take(int rank, const StageStep& step) {
    auto& mine = known_[static_cast<std::size_t>(rank)];
    const auto before = mine;
    mine.assign(elements_, std::nullopt);
    const StageFold plan = stage_fold(step.bounds, layout_.replicas());
    for (const SliceStep& slice : step.slices) {
      std::map<int, Message> by_group;
      for (const auto& source : slice.receives) by_group[source.group] = receive(rank, source.peer, slice.kept);
      for (std::int64_t e = slice.kept.begin; e < slice.kept.end; ++e) {
        Known inputs;
        for (int group = 0; group + 1 < static_cast<int>(step.bounds.size()); ++group) {
          const auto at = static_cast<std::size_t>(e);
          ASSERT_TRUE(group != step.group || before[at]);
          const Known& known = group == step.group
                                   ? *before[at]
                                   : by_group[group].known[at - static_cast<std::size_t>(slice.kept.begin)];
          ASSERT_EQ(known.blocks, plan.inputs[static_cast<std::size_t>(group)]);
          inputs.values.insert(inputs.values.end(), known.values.begin(), known.values.end());
        }
        mine[static_cast<std::size_t>(e)] = fold(plan, inputs);
      }
    }
  }

  void back(int stage) {
    std::vector<StageStep> steps;
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      steps.push_back(schedule_.step(rank, stage, {0, static_cast<std::int64_t>(elements_)}));
      if (steps.back().kind == StageKind::replicate) return;
      for (const SliceStep& slice : steps.back().slices) {
        for (const auto& target : slice.receives) send(rank, target.peer, slice.kept);
      }
    }
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      for (const SliceStep& slice : steps[static_cast<std::size_t>(rank)].slices) {
        for (const auto& source : slice.sends) {
          Message message = receive(rank, source.peer, source.elements);
          for (std::size_t i = 0; i < message.known.size(); ++i) {
            known_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(source.elements.begin) + i] =
                std::move(message.known[i]);
          }
        }
      }
    }
    expect_nothing_under_way();
  }

  const MixedRadix& schedule_;
  const RankLayout& layout_;
  std::size_t elements_;
  Adding adding_;
  std::vector<std::vector<std::optional<Known>>> known_;  // by rank and element
  std::map<Peers, std::queue<Message>> under_way_;
  std::map<int, std::int64_t> sent_;
};

const std::vector<std::string> patterns{"0",   "r0",   "2.2.2.2.2.2.2", "f2",     "f4",  "4.f4",     "2.2.f2", "4.r0",
                                        "4.0", "8.f8", "4.4.4.4",       "3.5.r2", "7.0", "r3.r2.f5", "6.f2",   "16.0",
                                        "n.0", "n.f4", "n.2.2.f2",      "n.3.r0", "n",   "n.4.4.4"};

std::vector<std::vector<float>> leaves_of(int replicas, std::int64_t elements) {
  std::vector<std::vector<float>> leaves;
  for (int replica = 0; replica < replicas; ++replica) {
    const test::Bytes bytes = test::awkward_values(DType::f32, elements, static_cast<std::uint64_t>(replica) + 1);
    auto& values = leaves.emplace_back(static_cast<std::size_t>(elements));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (float& value : values) {
      if (!(value > -1e30f && value < 1e30f))
        value = 3.25f;  // the tree adds NaNs like the hardware, the oracle does not
    }
  }
  return leaves;
}

test::Bytes oracle(const std::vector<std::vector<float>>& leaves) {
  std::vector<test::Bytes> bytes;
  for (const auto& values : leaves) {
    bytes.emplace_back(values.size() * sizeof(float));
    std::memcpy(bytes.back().data(), values.data(), bytes.back().size());
  }
  return test::canonical_reduce(ReduceOp::sum, DType::f32, bytes);
}

/// The number of ranks with wrong results.
int wrong_ranks(const RankLayout& layout, const std::string& pattern, std::int64_t elements,
                Adding adding = Adding::along_the_tree) {
  const auto leaves = leaves_of(layout.replicas(), elements);
  const MixedRadix schedule(layout, RadixPattern(pattern).stages(layout.ranks(), layout.nodes()));
  const Rehearsal rehearsal(schedule, leaves, adding);
  const test::Bytes expected = oracle(leaves);
  int wrong = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) wrong += rehearsal.result(rank) != expected ? 1 : 0;
  return wrong;
}

RankLayout with_replicas(RankLayout layout, int seed) {
  for (int rank = 0, next = 0; rank <= layout.ranks(); ++rank) {
    layout.first_replica[static_cast<std::size_t>(rank)] = next;
    next += 1 + (rank * 7 + seed) % 4 * ((rank + seed) % 3);
  }
  return layout;
}

RankLayout with_nodes(RankLayout layout, int seed) {
  layout.first_rank = {0};
  for (int node = 0; layout.first_rank.back() < layout.ranks(); ++node)
    layout.first_rank.push_back(std::min(layout.ranks(), layout.first_rank.back() + 1 + (node * 5 + seed) % 6));
  return layout;
}

class Schedules : public testing::TestWithParam<int> {};

TEST_P(Schedules, give_every_rank_the_bits_of_the_tree_whatever_the_radices) {
  const int ranks = GetParam();
  for (const std::string& pattern : patterns) {
    EXPECT_EQ(wrong_ranks(even_rank_layout(ranks, ranks), pattern, 23), 0) << pattern << " on " << ranks;
    EXPECT_EQ(wrong_ranks(even_rank_layout(ranks, (ranks + 3) / 4), pattern, 5), 0) << pattern << " on " << ranks;
  }
}

TEST_P(Schedules, serve_uneven_nodes_and_uneven_replicas) {
  const int ranks = GetParam();
  for (const std::string& pattern : patterns) {
    const RankLayout layout = with_nodes(with_replicas(even_rank_layout(ranks, 1), ranks), ranks);
    EXPECT_EQ(wrong_ranks(layout, pattern, 11), 0) << pattern << " on " << ranks;
  }
}

std::vector<int> rank_counts() {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= (test::is_quick() ? 17 : 40); ++ranks) counts.push_back(ranks);
  if (test::is_quick()) return counts;
  for (const int ranks : {63, 64, 65, 96, 100, 101, 127, 128, 129}) counts.push_back(ranks);
  return counts;
}
INSTANTIATE_TEST_SUITE_P(Ranks, Schedules, testing::ValuesIn(rank_counts()));

TEST(Schedule, with_another_order_of_additions_fails_the_comparison) {
  for (const char* const pattern : {"0", "8.0", "r0"})
    EXPECT_EQ(wrong_ranks(even_rank_layout(8, 8), pattern, 50, Adding::from_the_left), 8) << pattern;
}

std::int64_t sent_by(const MixedRadix& schedule, int rank, std::int64_t elements) {
  std::int64_t sent = 0;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const StageStep step = schedule.step(rank, stage, {0, elements});
    for (const SliceStep& slice : step.slices) {
      for (const auto& send : slice.sends) sent += send.elements.size();
      if (step.kind != StageKind::replicate)
        sent += slice.kept.size() * static_cast<std::int64_t>(slice.receives.size());
    }
  }
  return sent;
}

TEST(Schedule, sends_the_least_bytes_when_all_stages_split) {
  constexpr std::int64_t elements = 1 << 20;
  for (const int ranks : {2, 16, 64, 96, 1024}) {
    const RankLayout layout = even_rank_layout(ranks, ranks);
    for (const char* const pattern : {"0", "2.2.2.2.2.0", "4.8.0"}) {
      const MixedRadix schedule(layout, RadixPattern(pattern).stages(ranks, ranks));
      for (const int rank : {0, ranks / 2, ranks - 1}) {
        const double least = 2.0 * elements * (ranks - 1) / ranks;
        EXPECT_NEAR(static_cast<double>(sent_by(schedule, rank, elements)), least, 3.0 * ranks)
            << pattern << ' ' << ranks;
      }
    }
  }
}

TEST(Schedule, with_a_lone_last_rank_sends_no_more_than_the_others) {
  const RankLayout layout = even_rank_layout(101, 101);
  const MixedRadix schedule(layout, RadixPattern("4.0").stages(101, 101));
  EXPECT_LE(sent_by(schedule, 100, 1 << 20), 2 << 20);
}

TEST(Schedule, is_fast_for_a_hundred_thousand_ranks) {
  const RankLayout layout = even_rank_layout(100'000, 12'500);
  const MixedRadix schedule(layout, RadixPattern("n.4.8.f4").stages(100'000, 12'500));
  EXPECT_EQ(to_string(schedule.radices()), "n.4.8.r4.r4.r4.r4.r2");
  for (int rank = 0; rank < 100'000; rank += 997) {
    int messages = 0;
    for (int stage = 0; stage < schedule.stages(); ++stage) {
      for (const SliceStep& slice : schedule.step(rank, stage, {0, 1 << 20}).slices) {
        messages += static_cast<int>(slice.sends.size());
        messages += static_cast<int>(slice.receives.size());
      }
    }
    EXPECT_GE(messages, 2 * (7 + 3 + 7)) << rank;
    EXPECT_LE(messages, 100) << rank;
  }
}

TEST(Radices, expand_remainders_and_repeats) {
  const auto stages = [](const char* text, int ranks, int nodes) {
    return to_string(RadixPattern(text).stages(ranks, nodes));
  };
  EXPECT_EQ(stages("2.2.f2", 16, 16), "2.2.r2.r2");
  EXPECT_EQ(stages("4.0", 100, 100), "4.25");
  EXPECT_EQ(stages("4.r0", 100, 100), "4.r25");
  EXPECT_EQ(stages("n.4.0", 64, 8), "n.4.2");
  EXPECT_EQ(stages("n.4.0", 64, 64), "4.16");
  EXPECT_EQ(stages("n", 4, 1), "n");
  EXPECT_EQ(stages("2", 8, 8), "2.4");
  EXPECT_EQ(stages("2.r2", 8, 8), "2.r2.r2");
  EXPECT_EQ(stages("8.8.8", 5, 5), "5");
  EXPECT_EQ(stages("f4", 1, 1), "");
}

TEST(Radices, that_are_invalid_are_refused_with_the_rule) {
  const auto check = [](const std::string& rule, std::initializer_list<const char*> texts) {
    for (const char* text : texts) {
      try {
        const RadixPattern pattern(text);
        ADD_FAILURE() << text << " was taken";
      } catch (const Error& error) {
        EXPECT_NE(error.text().find("is invalid: " + rule), std::string::npos) << error.text();
        EXPECT_NE(error.text().find(std::string("radices \"") + text + "\": stage \""), std::string::npos)
            << error.text();
      }
    }
  };
  check("a stage is n, K, rK or fK", {"", "x", "1", "2.", "-3", "99999999", "2,2", "f", "rx"});
  check("fK must be the last stage", {"f4.2"});
  check("K in fK must be", {"f0"});
  check("K cannot follow rK", {"r2.4"});
  check("n must be the first stage", {"2.n", "n.n"});
  check("no stage can follow 0 or r0", {"0.2", "r0.n", "0."});
}

}  // namespace
}  // namespace lockstep::detail
