// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/distributed_dataset.hpp>

#include <lockstep/base/error.hpp>

#include "input/numbers.hpp"
#include "support/ranks.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {
namespace {

template <class Fn>
Steps steps_of_function(const std::vector<int>& layout, const Fn& fn, std::size_t most = 1000) {
  return steps_on_ranks(
      layout, [&fn](Communicator& communicator) { return input::distribute_from_function(fn, communicator); }, most);
}

/// Every test runs with datasets of known and of unknown length, that is, without and with an exchange in every step.
class DatasetsFromFunction : public testing::TestWithParam<bool> {
 protected:
  static Dataset<Tensor> range(std::int64_t count) {
    return GetParam() ? Dataset<Tensor>::range(count) : stream(count);
  }
};
INSTANTIATE_TEST_SUITE_P(Input, DatasetsFromFunction, testing::Bool(), [](const auto& source) {
  return std::string(source.param ? "known_length" : "unknown_length");
});

TEST_P(DatasetsFromFunction, give_each_local_replica_the_next_batch) {
  EXPECT_EQ(steps_of_function({2}, [](const InputContext&) { return range(9).batch(2); }),
            (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {}}}));
}

TEST_P(DatasetsFromFunction, pass_the_function_its_pipeline_id) {
  const auto fn = [](const InputContext& context) {
    EXPECT_EQ(context.num_input_pipelines(), 2);
    EXPECT_EQ(context.num_replicas_in_sync(), 2);
    return range(8).batch(context.get_per_replica_batch_size(4)).skip(context.input_pipeline_id());
  };
  EXPECT_EQ(steps_of_function({1, 1}, fn), (Steps{{{0, 1}, {2, 3}}, {{2, 3}, {4, 5}}, {{4, 5}, {6, 7}}, {{6, 7}, {}}}));
}

TEST_P(DatasetsFromFunction, of_different_lengths_give_all_ranks_the_same_number_of_steps) {
  const auto fn = [](const InputContext& context) { return range(8 + context.input_pipeline_id()).batch(1); };
  const Steps steps = steps_of_function({1, 1}, fn);
  ASSERT_EQ(steps.size(), 9U);
  EXPECT_EQ(steps[7], (std::vector<Numbers>{{7}, {7}}));
  EXPECT_EQ(steps[8], (std::vector<Numbers>{{}, {8}}));
}

TEST_P(DatasetsFromFunction, that_are_empty_on_a_rank_give_it_empty_batches_of_the_right_dtype_and_shape) {
  test::on_ranks({1, 2, 1}, [](Communicator& communicator) {
    const auto distributed = input::distribute_from_function(
        [](const InputContext& context) {
          return range(context.input_pipeline_id() == 2 ? 3 : 0)
              .map([](const Tensor&) {
                return std::tuple(Tensor(DType::f32, Shape{5, 7}), Tensor::scalar(std::uint8_t{3}));
              })
              .batch(2);
        },
        communicator);
    int steps = 0;
    for (const auto& [images, labels] : distributed) {
      const Tensor& image = images.component(images.size() - 1);
      const Tensor& label = labels.component(labels.size() - 1);
      const std::int64_t rows = communicator.rank() == 2 ? 2 - steps : 0;
      EXPECT_EQ(image.shape(), (Shape{rows, 5, 7}));
      EXPECT_EQ(label.shape(), (Shape{rows}));
      EXPECT_EQ(label.dtype(), DType::u8);
      ++steps;
    }
    EXPECT_EQ(steps, 2);
  });
}

TEST_P(DatasetsFromFunction, that_are_all_empty_end_at_once) {
  EXPECT_EQ(steps_of_function({1, 2}, [](const InputContext&) { return range(0).batch(2); }), Steps{});
}

TEST_P(DatasetsFromFunction, without_end_go_on) {
  const auto fn = [](const InputContext& context) {
    const auto finite = range(3).batch(2);
    return context.input_pipeline_id() == 0 ? finite : finite.repeat();
  };
  const Steps steps = steps_of_function({1, 1}, fn, 5);
  EXPECT_EQ(steps[4], (std::vector<Numbers>{{}, {0, 1}}));
}

TEST_P(DatasetsFromFunction, restart_with_each_iteration_and_call_the_function_once) {
  std::atomic<int> calls = 0;
  test::on_ranks({1, 1}, [&](Communicator& communicator) {
    const auto distributed = input::distribute_from_function(
        [&](const InputContext&) {
          ++calls;
          return range(20).shuffle(3).batch(20);
        },
        communicator);
    std::vector<Numbers> passes;
    for (int pass = 0; pass < 2; ++pass) {
      for (const auto& batch : distributed) {
        const auto elements = batch.value().elements<std::int64_t>();
        passes.emplace_back(elements.begin(), elements.end());
      }
    }
    ASSERT_EQ(passes.size(), 2U);
    EXPECT_NE(passes[0], passes[1]);
  });
  EXPECT_EQ(calls, 2);
}

TEST_P(DatasetsFromFunction, that_fail_on_one_rank_fail_soon_on_all) {
  for (const bool in_function : {true, false}) {
    std::atomic<int> users = 0;
    std::atomic<int> told = 0;
    test::on_ranks({1, 1, 1}, [&](Communicator& communicator) {
      try {
        const auto distributed = input::distribute_from_function(
            [&](const InputContext& context) {
              const bool culprit = context.input_pipeline_id() == 1;
              if (culprit && in_function) throw std::runtime_error("boom");
              return range(10)
                  .map([culprit](const Tensor& element) {
                    if (culprit && element.elements<std::int64_t>()[0] == 4) throw std::runtime_error("boom");
                    return element;
                  })
                  .batch(2);
            },
            communicator);
        for (const auto& batch : distributed) {
          static_cast<void>(batch);
          communicator.barrier();  // the step
        }
        ADD_FAILURE() << "rank " << communicator.rank() << " has seen nothing";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::unavailable) << error.what();
        EXPECT_NE(error.text().find("boom"), std::string::npos) << error.what();
        ++told;
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "boom");
        ++users;
      }
    });
    EXPECT_EQ(users, 1);
    EXPECT_EQ(told, 2);
    EXPECT_LT(virtual_time::now(), std::chrono::seconds(5));
  }
}

TEST(InputContext, divides_a_global_batch_evenly_or_not_at_all) {
  const InputContext context(3, 2, 3);
  EXPECT_EQ(context.get_per_replica_batch_size(12), 4);
  EXPECT_EQ(context.get_per_replica_batch_size(0), 0);  // as in tf.distribute
  for (const std::int64_t batch : {10, -3}) {
    try {
      static_cast<void>(context.get_per_replica_batch_size(batch));
      ADD_FAILURE() << batch;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(error.text().find(std::to_string(batch)), std::string::npos) << error.what();
      EXPECT_NE(error.text().find("the number of replicas, 3"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(InputContext(2, 2, 2), Error);
  EXPECT_THROW(InputContext(0, 0, 1), Error);
  EXPECT_THROW(InputContext(1, 0, 0), Error);
}

}  // namespace
}  // namespace lockstep
