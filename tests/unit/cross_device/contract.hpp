// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What every CrossDeviceOps must do. An implementation's test instantiates the suite with a function that makes one:
//   INSTANTIATE_TEST_SUITE_P(Mine, CrossDeviceContract, testing::Values(Implementation{"Mine", [] { return ...; }}));
// `counts` are the layouts that it can serve; {{1}, {3}, {4}} is one rank only.

#pragma once

#include <lockstep/lockstep.hpp>

#include "support/canonical_sum.hpp"
#include "support/expect_error.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace lockstep::test {

struct Implementation {
  std::string name;
  std::function<std::shared_ptr<CrossDeviceOps>()> make;
  std::vector<std::vector<int>> counts = {{1}, {3}, {4}, {2, 1}, {1, 1, 2}};
};
inline std::ostream& operator<<(std::ostream& out, const Implementation& implementation) {
  return out << implementation.name;
}

/// The value of replica `id`, of sums that no order changes.
inline Tensor whole_numbers(DType dtype, const Shape& shape, int id) {
  Tensor tensor(DType::f32, shape);
  int k = 0;
  for (float& element : tensor.elements<float>()) element = static_cast<float>((id + 1) * (k++ % 5));
  if (dtype == DType::f32) return tensor;
  Tensor numbers(DType::i32, shape);
  for (std::size_t i = 0; i < numbers.elements<int>().size(); ++i)
    numbers.elements<int>()[i] = static_cast<int>(tensor.elements<float>()[i]);
  return numbers;
}

class CrossDeviceContract : public testing::TestWithParam<Implementation> {
 protected:
  /// `body` on every rank of every layout, each with ops of its own.
  void everywhere(const std::function<void(CrossDeviceOps&, Communicator&)>& body) const {
    for (const auto& counts : GetParam().counts) {
      on_ranks(counts, [&](Communicator& communicator) { body(*GetParam().make(), communicator); });
    }
  }

  static int first_replica(const Communicator& communicator) {
    return communicator.layout().first(communicator.rank());
  }
  static int sum_of_weights(const Communicator& communicator) {
    const int n = communicator.layout().replicas();
    return n * (n + 1) / 2;
  }
};

/// The inputs of one item, and places for its results.
struct TestItem {
  std::vector<Tensor> values;
  std::vector<Tensor> results;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;

  TestItem(DType dtype, const Shape& shape, const Communicator& communicator, ReduceOp op, int copies) {
    const int first = communicator.layout().first(communicator.rank());
    for (int i = 0; i < communicator.local_replicas(); ++i) values.push_back(whole_numbers(dtype, shape, first + i));
    for (int i = 0; i < copies; ++i) results.emplace_back(result_dtype(op, dtype), shape);
    for (const Tensor& value : values) inputs.push_back(value.view());
    for (Tensor& result : results) outputs.push_back(result.view());
  }
  [[nodiscard]] Item item() const { return {inputs, outputs}; }
};

TEST_P(CrossDeviceContract, gives_every_output_the_sum_of_all_replicas) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator) {
    const TestItem sum(DType::f32, Shape{7}, communicator, ReduceOp::sum, communicator.local_replicas());
    ops.reduce(communicator, sum.item(), ReduceOp::sum);
    for (const Tensor& result : sum.results) {
      for (int k = 0; k < 7; ++k) {
        EXPECT_EQ(result.elements<float>()[static_cast<std::size_t>(k)],
                  static_cast<float>(sum_of_weights(communicator) * (k % 5)));
      }
    }
  });
}

TEST_P(CrossDeviceContract, divides_a_mean_by_all_replicas_and_gives_that_of_integers_in_f64) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator) {
    const TestItem mean(DType::i32, Shape{3}, communicator, ReduceOp::mean, 1);
    ops.reduce(communicator, mean.item(), ReduceOp::mean);
    const double expected = sum_of_weights(communicator) / static_cast<double>(communicator.layout().replicas());
    EXPECT_EQ(mean.results[0].elements<double>()[1], expected);
  });
}

TEST_P(CrossDeviceContract, takes_batches_of_several_dtypes_shapes_and_empty_tensors) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator) {
    const TestItem scalar(DType::f32, Shape{}, communicator, ReduceOp::sum, 2);
    const TestItem empty(DType::f32, Shape{0, 2}, communicator, ReduceOp::sum, 1);
    const TestItem numbers(DType::i32, Shape{2, 3}, communicator, ReduceOp::sum, 3);
    const TestItem unwanted(DType::f32, Shape{4}, communicator, ReduceOp::sum, 0);
    const std::vector<Item> items{scalar.item(), empty.item(), numbers.item(), unwanted.item()};
    ops.batch_reduce(communicator, items, ReduceOp::sum);
    EXPECT_EQ(scalar.results[1].elements<float>()[0], 0.0F);
    EXPECT_EQ(numbers.results[2].elements<int>()[4], 4 * sum_of_weights(communicator));
    ops.batch_reduce(communicator, {}, ReduceOp::sum);
  });
}

TEST_P(CrossDeviceContract, takes_min_max_and_prod) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator) {
    const TestItem item(DType::i32, Shape{2}, communicator, ReduceOp::max, 1);
    ops.reduce(communicator, item.item(), ReduceOp::max);
    EXPECT_EQ(item.results[0].elements<int>()[1], communicator.layout().replicas());
    ops.reduce(communicator, item.item(), ReduceOp::min);
    EXPECT_EQ(item.results[0].elements<int>()[1], 1);
  });
}

TEST_P(CrossDeviceContract, reduces_in_place_and_leaves_other_inputs_alone) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator) {
    TestItem item(DType::f32, Shape{5}, communicator, ReduceOp::sum, 0);
    const Tensor last_before = item.values.back().clone();
    const TensorView in_place = item.values.front().view();
    ops.reduce(communicator, {item.inputs, std::span(&in_place, 1)}, ReduceOp::sum);
    EXPECT_EQ(item.values.front().elements<float>()[1], static_cast<float>(sum_of_weights(communicator)));
    if (item.values.size() > 1) {
      EXPECT_EQ(item.values.back().elements<float>()[1], last_before.elements<float>()[1]);
    }
  });
}

TEST_P(CrossDeviceContract, gives_the_bits_of_the_canonical_tree_if_it_says_so) {
  if (!GetParam().make()->is_canonical()) GTEST_SKIP() << "it adds in an order of its own";
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    everywhere([dtype](CrossDeviceOps& ops, Communicator& communicator) {
      const std::int64_t count = 40;
      std::vector<Bytes> leaves;
      for (int r = 0; r < communicator.layout().replicas(); ++r)
        leaves.push_back(awkward_values(dtype, count, static_cast<std::uint64_t>(r)));
      std::vector<ConstTensorView> inputs;
      for (int i = 0; i < communicator.local_replicas(); ++i)
        inputs.emplace_back(leaves[static_cast<std::size_t>(first_replica(communicator) + i)].data(), dtype,
                            Shape{count});
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
        Tensor result(dtype, Shape{count});
        const TensorView output = result.view();
        ops.reduce(communicator, {inputs, std::span(&output, 1)}, op);
        const Bytes expected = canonical_reduce(op, dtype, leaves);
        EXPECT_EQ(std::memcmp(result.data(), expected.data(), expected.size()), 0) << to_string(dtype);
      }
    });
  }
}

TEST_P(CrossDeviceContract, refuses_what_is_wrong_before_it_moves) {
  if (GetParam().counts.front() != std::vector<int>{1}) GTEST_SKIP() << "needs one rank";
  on_ranks({2}, [](Communicator& communicator) {
    const auto ops = GetParam().make();
    std::vector<Tensor> values{Tensor(DType::f32, Shape{2}), Tensor(DType::f32, Shape{3})};
    const std::vector<ConstTensorView> inputs{std::as_const(values[0]).view(), std::as_const(values[1]).view()};
    expect_error(Code::invalid_argument, {"batch_reduce", "[3] on replica 1", "[2] on replica 0"},
                 [&] { ops->reduce(communicator, {inputs, {}}, ReduceOp::sum); });
    expect_error(Code::invalid_argument, {"batch_reduce", "1 components", "2 replicas"},
                 [&] { ops->reduce(communicator, {std::span(inputs).first(1), {}}, ReduceOp::sum); });
    expect_error(Code::unavailable, {"NCCL", "AUTO or RING"}, [&] {
      ops->reduce(communicator, {std::span(inputs).first(1), {}}, ReduceOp::sum, {.implementation = "NCCL"});
    });
  });
}

TEST_P(CrossDeviceContract, broadcasts_the_roots_value) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator) {
    const int root = communicator.size() - 1;
    const Tensor value = Tensor::from(std::vector<float>{1.5F, static_cast<float>(communicator.rank())});
    const ConstTensorView input = value.view();
    Tensor result(DType::f32, Shape{2});
    const TensorView output = result.view();
    const Item item{communicator.rank() == root ? std::span(&input, 1) : std::span<const ConstTensorView>(),
                    std::span(&output, 1)};
    ops.broadcast(communicator, std::span(&item, 1), root);
    EXPECT_EQ(result.elements<float>()[1], static_cast<float>(root));
  });
}

TEST_P(CrossDeviceContract, gathers_rows_by_replica) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator) {
    const int replicas = communicator.layout().replicas();
    std::vector<Tensor> values;
    std::vector<ConstTensorView> inputs;
    for (int i = 0; i < communicator.local_replicas(); ++i) {
      const int id = first_replica(communicator) + i;
      values.push_back(Tensor::from(std::vector<int>(static_cast<std::size_t>(id), id)));
    }
    for (const Tensor& value : values) inputs.push_back(value.view());
    std::vector<std::int64_t> rows;
    std::vector<int> expected;
    for (int r = 0; r < replicas; ++r) {
      rows.push_back(r);
      expected.insert(expected.end(), static_cast<std::size_t>(r), r);
    }
    Tensor result(DType::i32, Shape{static_cast<std::int64_t>(expected.size())});
    const TensorView output = result.view();
    const Item item{inputs, std::span(&output, 1)};
    ops.gather(communicator, std::span(&item, 1), rows);
    const auto elements = result.elements<int>();
    EXPECT_EQ(std::vector<int>(elements.begin(), elements.end()), expected);
  });
}

}  // namespace lockstep::test
