// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The sharding policies, and the description of a distributed dataset.

#include <lockstep/input/distributed_dataset.hpp>

#include <lockstep/base/error.hpp>

#include "input/numbers.hpp"
#include "support/expect_error.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using test::expect_error;

constexpr auto fixed_chunks = SplitPolicy::fixed_chunks;
constexpr auto ceil_slices = SplitPolicy::ceil_slices;

Dataset<Tensor> range(std::int64_t count) { return Dataset<Tensor>::range(count); }

InputOptions with(AutoShardPolicy policy, SplitPolicy split = fixed_chunks) {
  return {.split = split, .auto_shard_policy = policy};
}

TEST(Sharding, by_data_gives_rank_i_slices_i_and_so_on_of_each_batch) {
  const auto data = with(AutoShardPolicy::data, ceil_slices);
  EXPECT_EQ(steps_of({2, 2}, range(15).batch(4), data),
            (Steps{{{0}, {2}, {1}, {3}}, {{4}, {6}, {5}, {7}}, {{8}, {10}, {9}, {11}}, {{12}, {14}, {13}, {}}}));
  // ceil slices even if the options say fixed chunks, as in tf.distribute
  EXPECT_EQ(steps_of({1, 1}, stream(8).batch(3), with(AutoShardPolicy::data)),
            (Steps{{{0, 1}, {2}}, {{3, 4}, {5}}, {{6}, {7}}}));
}

TEST(Sharding, by_data_on_several_ranks_is_warned_of_once) {
  const auto warning = [](AutoShardPolicy policy, const ReplicaLayout& layout, int rank) {
    testing::internal::CaptureStderr();
    static_cast<void>(input::distribute(range(4).batch(2), {layout, rank}, with(policy)));
    return testing::internal::GetCapturedStderr();
  };
  for (const auto policy : {AutoShardPolicy::data, AutoShardPolicy::file_or_data}) {
    const std::string text = warning(policy, ReplicaLayout({1, 1}), 0);
    EXPECT_NE(text.find("each of the 2 ranks reads and transforms all data"), std::string::npos) << text;
    EXPECT_NE(text.find("distribute_datasets_from_function"), std::string::npos) << text;
    EXPECT_EQ(warning(policy, ReplicaLayout({1, 1}), 1), "");
    EXPECT_EQ(warning(policy, ReplicaLayout({2}), 0), "");
  }
  EXPECT_EQ(warning(AutoShardPolicy::automatic, ReplicaLayout({1, 1}), 0), "");
}

TEST(Sharding, off_gives_every_rank_all_elements_in_cyclic_chunks) {
  for (const auto& source : {range(14), stream(14)}) {
    // rank 0 takes 2, 2, 2, 1, 2, 2, 2, 1 and rank 1 2, 1, 2, 2, 2, 1, 2, 2
    EXPECT_EQ(steps_of({2, 2}, source.batch(7), with(AutoShardPolicy::off)),
              (Steps{{{0, 1}, {2, 3}, {0, 1}, {2}},
                     {{4, 5}, {6}, {3, 4}, {5, 6}},
                     {{7, 8}, {9, 10}, {7, 8}, {9}},
                     {{11, 12}, {13}, {10, 11}, {12, 13}}}));
    EXPECT_EQ(steps_of({1, 1}, source.batch(8), with(AutoShardPolicy::off)), (Steps{{{0, 1, 2, 3}, {0, 1, 2, 3}},
                                                                                    {{4, 5, 6, 7}, {4, 5, 6, 7}},
                                                                                    {{8, 9, 10, 11}, {8, 9, 10, 11}},
                                                                                    {{12, 13}, {12, 13}}}));
    EXPECT_EQ(steps_of({1, 1}, source.take(5).batch(4), with(AutoShardPolicy::off, ceil_slices)),
              (Steps{{{0, 1}, {0, 1}}, {{2, 3}, {2, 3}}, {{4}, {4}}, {{}, {}}}));
  }
}

TEST(Sharding, off_ignores_the_ends_of_batches_in_the_stream) {
  for (const auto& source : {range(3), stream(3)}) {
    const auto dataset = source.batch(4).repeat(3);  // batches of 3
    EXPECT_EQ(steps_of({1, 1}, dataset, with(AutoShardPolicy::off)),
              (Steps{{{0, 1}, {0, 1}}, {{2, 0}, {2, 0}}, {{1, 2}, {1, 2}}, {{0, 1}, {0, 1}}, {{2}, {2}}}));
    // a single rank needs no peers
    const auto alone =
        input::distribute(dataset, {ReplicaLayout({2}), 0}, with(AutoShardPolicy::off)).iterate().get_next();
    EXPECT_EQ(alone.component(1).elements<std::int64_t>()[0], 2);
  }
}

TEST(Sharding, with_chunks_of_no_rows_still_gives_every_element_once_per_rank) {
  EXPECT_EQ(steps_of({1, 1}, range(3).batch(1), with(AutoShardPolicy::off)),
            (Steps{{{0}, {}}, {{}, {0}}, {{1}, {}}, {{}, {1}}, {{2}, {}}, {{}, {2}}}));
}

TEST(Sharding, by_rank_requires_the_same_number_of_replicas_on_every_rank) {
  for (const auto policy :
       {AutoShardPolicy::file, AutoShardPolicy::data, AutoShardPolicy::off, AutoShardPolicy::hint}) {
    expect_error(Code::invalid_argument, {std::string(to_string(policy)), "[2, 1]", "AUTO supports any layout"}, [&] {
      static_cast<void>(input::distribute(range(4).batch(2), {ReplicaLayout({2, 1}), 0}, with(policy)));
    });
  }
  expect_error(Code::invalid_argument, {"OFF", "2 ranks", "set InputLayout::peers"}, [&] {
    static_cast<void>(input::distribute(range(4).batch(2), {ReplicaLayout({1, 1}), 0}, with(AutoShardPolicy::off)));
  });
}

TEST(Sharding, refuses_datasets_incompatible_with_the_policy_on_all_ranks) {
  const auto refused = [](AutoShardPolicy policy, const std::vector<std::string>& parts) {
    test::on_ranks({1, 1}, [&](Communicator& communicator) {
      expect_error(Code::invalid_argument, parts, [&] {
        static_cast<void>(input::distribute(range(4).batch(2),
                                            {communicator.layout(), communicator.rank(), communicator}, with(policy)));
      });
    });
  };
  refused(AutoShardPolicy::file, {"FILE", "all sources of the dataset are files", "use AUTO or DATA"});
  refused(AutoShardPolicy::hint, {"HINT", "requires shard(shard_hint, shard_hint)", "as with OFF"});
}

TEST(Sharding, of_other_batch_sizes_on_another_rank_is_a_mismatch_on_all) {
  test::on_ranks({2, 2, 2}, [](Communicator& communicator) {
    const auto dataset = [&](bool is_other) {
      return input::distribute(range(12).shard(shard_hint, shard_hint).batch(is_other ? 6 : 4),
                               {communicator.layout(), communicator.rank(), communicator}, with(AutoShardPolicy::hint));
    };
    const auto distributed = dataset(communicator.rank() == 2);
    expect_error(Code::mismatch, {"global batch size of the dataset is 4 on rank 0, but 6 on rank 2", "same dataset"},
                 [&] { static_cast<void>(distributed.iterate()); });
    EXPECT_NO_THROW(static_cast<void>(dataset(false).iterate())) << "the communicator is usable";
  });
}

TEST(Sharding, of_one_replica_gives_unbatched_elements_unchanged) {
  for (const auto policy : {AutoShardPolicy::automatic, AutoShardPolicy::data, AutoShardPolicy::off}) {
    const auto distributed = input::distribute(range(2), {ReplicaLayout({1}), 0}, with(policy));
    auto iterator = distributed.iterate();
    for (const std::int64_t expected : {0, 1}) {
      const auto element = iterator.get_next();
      EXPECT_EQ(element.value().shape(), Shape{});
      EXPECT_EQ(element.value().elements<std::int64_t>()[0], expected);
    }
    EXPECT_FALSE(iterator.get_next_as_optional());
    EXPECT_EQ(to_string(distributed.element_spec().value()), "i64[]");
  }
}

TEST(Sharding, continues_at_a_position_in_streams_too) {
  test::on_ranks({2, 2}, [](Communicator& communicator) {
    const InputLayout here{communicator.layout(), communicator.rank(), communicator};
    for (const auto& source : {range(33), stream(33)}) {
      const auto distributed = input::distribute(source.shuffle(1).batch(5), here, with(AutoShardPolicy::off));
      auto first = distributed.iterate();
      for (int step = 0; step < 3; ++step) static_cast<void>(first.get_next());
      auto second = distributed.resume(first.position());
      while (const auto expected = first.get_next_as_optional()) {
        const auto found = second.get_next();
        for (int i = 0; i < 2; ++i) {
          ASSERT_EQ(found.component(i).shape(), expected->component(i).shape());
          for (std::int64_t k = 0; k < found.component(i).element_count(); ++k) {
            const auto at = static_cast<std::size_t>(k);
            EXPECT_EQ(found.component(i).elements<std::int64_t>()[at],
                      expected->component(i).elements<std::int64_t>()[at]);
          }
        }
      }
      EXPECT_FALSE(second.get_next_as_optional());
    }
  });
}

TEST(DatasetsFromFunction_, per_replica_are_created_and_read_for_each_replica) {
  for (const bool known : {true, false}) {
    std::vector<std::pair<int, int>> contexts;
    test::on_ranks({2}, [&](Communicator& communicator) {
      const auto distributed = input::distribute_from_function(
          [&](const InputContext& context) {
            contexts.emplace_back(context.input_pipeline_id(), context.num_input_pipelines());
            const std::int64_t count = context.input_pipeline_id() == 0 ? 3 : 6;
            return (known ? range(count) : stream(count)).batch(2);
          },
          communicator, {.experimental_replication_mode = InputReplicationMode::per_replica});
      Steps steps;
      for (const auto& batch : distributed) {
        auto& step = steps.emplace_back();
        for (int i = 0; i < 2; ++i) {
          const auto elements = batch.component(i).elements<std::int64_t>();
          step.emplace_back(elements.begin(), elements.end());
        }
      }
      EXPECT_EQ(steps, (Steps{{{0, 1}, {0, 1}}, {{2}, {2, 3}}, {{}, {4, 5}}}));
      auto later = distributed.resume({0, 2});
      EXPECT_EQ(later.get_next().component(1).elements<std::int64_t>()[0], 4);
      EXPECT_FALSE(later.get_next_as_optional());
      EXPECT_NE(distributed.describe().find("replicas 0 to 1: reads pipelines 0 to 1 of 2"), std::string::npos);
    });
    EXPECT_EQ(contexts, (std::vector<std::pair<int, int>>{{0, 2}, {1, 2}}));
  }
}

TEST(InputOptions_, are_checked_with_the_rules_of_tf_distribute) {
  const auto refused = [](Code code, const InputOptions& options, const std::vector<std::string>& parts) {
    expect_error(code, parts,
                 [&] { static_cast<void>(input::distribute(range(4).batch(2), {ReplicaLayout({1}), 0}, options)); });
  };
  constexpr auto per_replica = InputReplicationMode::per_replica;
  refused(Code::invalid_argument, {.experimental_place_dataset_on_device = true},
          {"experimental_place_dataset_on_device", "requires experimental_replication_mode PER_REPLICA"});
  refused(Code::invalid_argument,
          {.experimental_replication_mode = per_replica, .experimental_place_dataset_on_device = true},
          {"experimental_place_dataset_on_device and experimental_fetch_to_device", "unset one"});
  refused(Code::invalid_argument, {.experimental_per_replica_buffer_size = -1},
          {"experimental_per_replica_buffer_size is -1", "at least 0"});
  refused(Code::unimplemented, {.experimental_replication_mode = per_replica},
          {"PER_REPLICA", "distribute_datasets_from_function of MirroredStrategy"});
  refused(Code::unimplemented,
          {.experimental_fetch_to_device = false,
           .experimental_replication_mode = per_replica,
           .experimental_place_dataset_on_device = true},
          {"PER_REPLICA"});
}

TEST(ElementSpec, has_the_known_number_of_rows_and_the_spec_of_the_first_element) {
  const auto pairs = Dataset<std::pair<Tensor, Tensor>>::from_tensor_slices(
      {Tensor(DType::f32, Shape{10, 28}), Tensor(DType::u8, Shape{10})});
  const auto texts = [](const auto& dataset, const InputLayout& layout, const InputOptions& options = {}) {
    const auto spec = input::distribute(dataset, layout, options).element_spec();
    std::vector<std::string> result;
    for (int i = 0; i < spec.first.size(); ++i)
      result.push_back(to_string(spec.first.component(i)) + " " + to_string(spec.second.component(i)));
    return result;
  };
  using Texts = std::vector<std::string>;
  constexpr BatchOptions full{.drop_remainder = true};
  EXPECT_EQ(texts(pairs.batch(5), {ReplicaLayout({2}), 0}), (Texts{"f32[?, 28] u8[?]", "f32[?, 28] u8[?]"}));
  EXPECT_EQ(texts(pairs.batch(5, full), {ReplicaLayout({1, 2}), 1}), (Texts{"f32[2, 28] u8[2]", "f32[1, 28] u8[1]"}));
  EXPECT_EQ(texts(pairs.prefetch(1).batch(5, full).repeat().prefetch(2), {ReplicaLayout({1, 2}), 0}),
            (Texts{"f32[2, 28] u8[2]"}));
  EXPECT_EQ(texts(pairs.batch(4, full), {ReplicaLayout({1, 1}), 0}, with(AutoShardPolicy::data)),
            (Texts{"f32[2, 28] u8[2]"}));
  EXPECT_EQ(texts(pairs.batch(4, full), {ReplicaLayout({1}), 0}, with(AutoShardPolicy::off)),
            (Texts{"f32[?, 28] u8[?]"}));
  expect_error(Code::failed_precondition, {"element_spec", "empty"}, [&] {
    static_cast<void>(input::distribute(range(0).batch(2), {ReplicaLayout({1}), 0}).element_spec());
  });
}

TEST(Describe, lists_the_data_of_each_rank_without_reading_any) {
  std::atomic<int> read = 0;
  const auto watched = [&](const Dataset<Tensor>& dataset) {
    return dataset.map([&](Tensor element) {
      ++read;
      return element;
    });
  };
  const auto text = [&](const Dataset<Tensor>& dataset, const ReplicaLayout& layout, const InputOptions& options) {
    std::string result;
    test::on_ranks({layout.counts().begin(), layout.counts().end()}, [&](Communicator& communicator) {
      const auto described =
          input::distribute(dataset, {layout, communicator.rank(), communicator}, options).describe();
      if (communicator.rank() == 0) result = described;
    });
    return result;
  };
  EXPECT_EQ(text(watched(range(15)).batch(6), ReplicaLayout({2, 1, 1}), {}),
            "dataset: 3 global batches of 6 rows; auto_shard_policy AUTO, split FIXED_CHUNKS\n"
            "  rank 0, replicas 0 to 1: reads rows 0 to 3 of each full batch\n"
            "  rank 1, replica 2: reads row 4 of each full batch\n"
            "  rank 2, replica 3: reads row 5 of each full batch\n"
            "  chunks have the sizes that they have in a full batch of 6 rows\n"
            "  replica r gets chunk r of each batch, on any layout of 4 replicas\n");
  EXPECT_EQ(
      text(watched(stream(15)).batch(1).repeat(), ReplicaLayout({1, 1}), with(AutoShardPolicy::automatic, ceil_slices)),
      "dataset: an unknown number of global batches of 1 row; auto_shard_policy AUTO, split CEIL_SLICES\n"
      "  rank 0, replica 0: reads everything and keeps row 0 of each full batch\n"
      "  rank 1, replica 1: reads everything and keeps no rows of each full batch\n"
      "  each batch is divided by its own number of rows\n"
      "  replica r gets chunk r of each batch, on any layout of 2 replicas\n");
  const std::string depends =
      "  batches depend on the number of ranks: on another number, replicas get different batches\n";
  EXPECT_EQ(text(watched(range(15)).batch(6).repeat(), ReplicaLayout({2, 2}), with(AutoShardPolicy::file_or_data)),
            "dataset: infinitely many global batches of 6 rows; auto_shard_policy DATA, split CEIL_SLICES\n"
            "  rank 0, replicas 0 to 1: reads slices 0, 2 of the 4 slices of each batch\n"
            "  rank 1, replicas 2 to 3: reads slices 1, 3 of the 4 slices of each batch\n"
            "  each batch is divided by its own number of rows\n" +
                depends);
  EXPECT_EQ(text(watched(range(15)).batch(6), ReplicaLayout({1, 1}), with(AutoShardPolicy::off)),
            "dataset: 3 global batches of 6 rows; auto_shard_policy OFF, split FIXED_CHUNKS\n"
            "  rank 0, replica 0: reads everything\n"
            "  rank 1, replica 1: reads everything\n"
            "  chunks have the sizes that they have in a full batch of 6 rows\n" +
                depends);
  EXPECT_EQ(text(watched(range(15)), ReplicaLayout({1}), {}),
            "dataset: 15 elements; auto_shard_policy AUTO, split FIXED_CHUNKS\n"
            "  rank 0, replica 0: reads every element\n"
            "  replica r gets chunk r of each batch, on any layout of 1 replica\n");
  EXPECT_EQ(read, 0);
  test::on_ranks({2, 1}, [&](Communicator& communicator) {
    EXPECT_EQ(
        input::distribute_from_function([](const InputContext&) { return range(3).batch(1); }, communicator).describe(),
        "datasets from a function: one per rank; the replicas of a rank take elements in turn\n"
        "  rank 0, replicas 0 to 1: reads pipeline 0 of 2\n"
        "  rank 1, replica 2: reads pipeline 1 of 2\n" +
            depends);
  });
}

}  // namespace
}  // namespace lockstep
