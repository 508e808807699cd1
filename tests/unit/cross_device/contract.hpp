// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of CrossDeviceOps. The test of an implementation instantiates the suite with a function that creates
// one:
//   INSTANTIATE_TEST_SUITE_P(Mine, CrossDeviceContract, testing::Values(Implementation{"Mine", [] { return ...; }}));
// `layouts` are the layouts that the implementation supports.

#pragma once

#include <lockstep/lockstep.hpp>

#include "support/canonical_sum.hpp"
#include "support/gpu_ranks.hpp"
#include "unit/strategy/gpu_strategies.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace lockstep::test {

/// Numbers of replicas by rank; all replicas are on hosts.
inline std::vector<GpuLayout> on_hosts(const std::vector<std::vector<int>>& counts) {
  std::vector<GpuLayout> layouts;
  for (const auto& replicas : counts) layouts.push_back({replicas, 0});
  return layouts;
}

struct Implementation {
  std::string name;
  std::function<std::shared_ptr<CrossDeviceOps>()> make;
  std::vector<GpuLayout> layouts = on_hosts({{1}, {3}, {4}, {2, 1}, {1, 1, 2}});
};
inline std::ostream& operator<<(std::ostream& out, const Implementation& implementation) {
  return out << implementation.name;
}

/// The value of replica `id`, in host memory; the sums of such values do not depend on the order.
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
  using Body = std::function<void(CrossDeviceOps&, Communicator&, const DeviceOf&)>;

  /// `body(ops, communicator, device_of)` on every rank of every layout, each with its own ops.
  static void everywhere(const Body& body, const CommunicatorOptions& options = {}) {
    for (const GpuLayout& layout : GetParam().layouts) on_layout(layout, body, options);
  }

  static void on_layout(const GpuLayout& layout, const Body& body, const CommunicatorOptions& options = {}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const auto on_rank = [&](Communicator& communicator, const DeviceOf& device_of) {
      body(*GetParam().make(), communicator, device_of);
    };
    if (layout.gpus == 0) {
      on_ranks(layout.replicas, [&](Communicator& communicator) { on_rank(communicator, on_host); }, options);
    } else {
      const FakeGpus gpus({.devices = layout.all_gpus()});
      on_gpu_ranks(gpus, layout, on_rank, options);
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

/// The inputs and outputs of one item.
struct TestItem {
  std::vector<Tensor> values;
  std::vector<Tensor> results;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;

  /// Inputs and outputs of local replica i are on `device_of(i)`.
  TestItem(DType dtype, const Shape& shape, const Communicator& communicator, const DeviceOf& device_of, ReduceOp op,
           int copies) {
    const int first = communicator.layout().first(communicator.rank());
    for (int i = 0; i < communicator.local_replicas(); ++i)
      values.push_back(whole_numbers(dtype, shape, first + i).to(device_of(i)));
    for (int i = 0; i < copies; ++i)
      results.emplace_back(result_dtype(op, dtype), shape, nullptr, device_of(i % communicator.local_replicas()));
    for (const Tensor& value : values) inputs.push_back(value.view());
    for (Tensor& result : results) outputs.push_back(result.view());
  }
  [[nodiscard]] Item item() const { return {inputs, outputs}; }
};

TEST_P(CrossDeviceContract, gives_every_output_the_sum_of_all_replicas) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    const TestItem sum(DType::f32, Shape{7}, communicator, device_of, ReduceOp::sum, communicator.local_replicas());
    ops.reduce(communicator, sum.item(), ReduceOp::sum);
    std::vector<float> expected;
    for (int k = 0; k < 7; ++k) expected.push_back(static_cast<float>(sum_of_weights(communicator) * (k % 5)));
    for (const Tensor& result : sum.results) EXPECT_EQ(elements_from<float>(result), expected);
  });
}

TEST_P(CrossDeviceContract, divides_a_mean_by_all_replicas_and_gives_that_of_integers_in_f64) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    const TestItem mean(DType::i32, Shape{3}, communicator, device_of, ReduceOp::mean, 1);
    ops.reduce(communicator, mean.item(), ReduceOp::mean);
    const double expected = sum_of_weights(communicator) / static_cast<double>(communicator.layout().replicas());
    EXPECT_EQ(elements_from<double>(mean.results[0])[1], expected);
  });
}

TEST_P(CrossDeviceContract, takes_batches_of_several_dtypes_shapes_and_empty_tensors) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    const TestItem scalar(DType::f32, Shape{}, communicator, device_of, ReduceOp::sum, 2);
    const TestItem empty(DType::f32, Shape{0, 2}, communicator, device_of, ReduceOp::sum, 1);
    const TestItem numbers(DType::i32, Shape{2, 3}, communicator, device_of, ReduceOp::sum, 3);
    const TestItem unwanted(DType::f32, Shape{4}, communicator, device_of, ReduceOp::sum, 0);
    const std::vector<Item> items{scalar.item(), empty.item(), numbers.item(), unwanted.item()};
    ops.batch_reduce(communicator, items, ReduceOp::sum);
    EXPECT_EQ(elements_from<float>(scalar.results[1])[0], 0.0F);
    EXPECT_EQ(elements_from<int>(numbers.results[2])[4], 4 * sum_of_weights(communicator));
    ops.batch_reduce(communicator, {}, ReduceOp::sum);
  });
}

TEST_P(CrossDeviceContract, takes_min_max_and_prod) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    const TestItem item(DType::i32, Shape{2}, communicator, device_of, ReduceOp::max, 1);
    ops.reduce(communicator, item.item(), ReduceOp::max);
    EXPECT_EQ(elements_from<int>(item.results[0])[1], communicator.layout().replicas());
    ops.reduce(communicator, item.item(), ReduceOp::min);
    EXPECT_EQ(elements_from<int>(item.results[0])[1], 1);
  });
}

TEST_P(CrossDeviceContract, reduces_in_place_and_leaves_other_inputs_alone) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    TestItem item(DType::f32, Shape{5}, communicator, device_of, ReduceOp::sum, 0);
    const auto last_before = elements_from<float>(item.values.back());
    const TensorView in_place = item.values.front().view();
    ops.reduce(communicator, {item.inputs, std::span(&in_place, 1)}, ReduceOp::sum);
    EXPECT_EQ(elements_from<float>(item.values.front())[1], static_cast<float>(sum_of_weights(communicator)));
    if (item.values.size() > 1) {
      EXPECT_EQ(elements_from<float>(item.values.back()), last_before);
    }
  });
}

TEST_P(CrossDeviceContract, gives_the_bits_of_the_canonical_tree_if_it_says_so) {
  if (!GetParam().make()->is_canonical()) GTEST_SKIP() << "it adds in an order of its own";
  const auto check = [](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of, DType dtype) {
    const std::int64_t count = 40;
    std::vector<Bytes> leaves;
    for (int r = 0; r < communicator.layout().replicas(); ++r)
      leaves.push_back(awkward_values(dtype, count, static_cast<std::uint64_t>(r)));
    std::vector<PlacedBytes> values;
    std::vector<ConstTensorView> inputs;
    for (int i = 0; i < communicator.local_replicas(); ++i) {
      values.emplace_back(leaves[static_cast<std::size_t>(first_replica(communicator) + i)], device_of(i));
      inputs.emplace_back(values.back().view(dtype));
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      Tensor result(dtype, Shape{count}, nullptr, device_of(0));
      const TensorView output = result.view();
      ops.reduce(communicator, {inputs, std::span(&output, 1)}, op);
      EXPECT_EQ(read(output), canonical_reduce(op, dtype, leaves)) << to_string(op) << " of " << to_string(dtype);
    }
  };
  everywhere(
      [&](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) check(ops, communicator, device_of, dtype);
      },
      canonical());
}

TEST_P(CrossDeviceContract, refuses_invalid_items_before_data_moves) {
  const int gpus = GetParam().layouts.front().gpus;
  on_layout({{2}, gpus}, [&](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    std::vector<Tensor> values;
    for (const int i : {0, 1}) values.emplace_back(DType::f32, Shape{2 + i}, nullptr, device_of(i));
    const std::vector<ConstTensorView> inputs{values[0].view(), values[1].view()};
    expect_error(Code::invalid_argument, {"batch_reduce", "[3] on replica 1", "[2] on replica 0"},
                 [&] { ops.reduce(communicator, {inputs, {}}, ReduceOp::sum); });
    expect_error(Code::invalid_argument, {"batch_reduce", "1 component,", "2 replicas"},
                 [&] { ops.reduce(communicator, {std::span(inputs).first(1), {}}, ReduceOp::sum); });
    if (gpus > 0) return;
    expect_error(Code::unavailable, {"NCCL", "AUTO or RING"}, [&] {
      ops.reduce(communicator, {std::span(inputs).first(1), {}}, ReduceOp::sum, {.implementation = "NCCL"});
    });
  });
}

TEST_P(CrossDeviceContract, throws_the_failure_of_another_rank_once_and_works_again) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    if (communicator.size() == 1) return;
    const TestItem item(DType::i32, Shape{2}, communicator, device_of, ReduceOp::sum, 1);
    if (communicator.rank() == 0) {
      communicator.abort("out of apples");
    } else {
      expect_error(Code::unavailable, {"rank 0", "out of apples"},
                   [&] { ops.reduce(communicator, item.item(), ReduceOp::sum); });
    }
    ops.reduce(communicator, item.item(), ReduceOp::sum);
    EXPECT_EQ(elements_from<int>(item.results[0])[1], sum_of_weights(communicator));
  });
}

TEST_P(CrossDeviceContract, broadcasts_the_roots_value) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    const int root = communicator.size() - 1;
    const std::vector<float> elements{1.5F, static_cast<float>(communicator.rank())};
    const Tensor value = Tensor::from(elements).to(device_of(0));
    const ConstTensorView input = value.view();
    Tensor result(DType::f32, Shape{2}, nullptr, device_of(communicator.local_replicas() - 1));
    const TensorView output = result.view();
    const Item item{communicator.rank() == root ? std::span(&input, 1) : std::span<const ConstTensorView>(),
                    std::span(&output, 1)};
    ops.broadcast(communicator, std::span(&item, 1), root);
    EXPECT_EQ(elements_from<float>(result)[1], static_cast<float>(root));
  });
}

TEST_P(CrossDeviceContract, gathers_rows_by_replica) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const DeviceOf& device_of) {
    const int replicas = communicator.layout().replicas();
    std::vector<Tensor> values;
    std::vector<ConstTensorView> inputs;
    for (int i = 0; i < communicator.local_replicas(); ++i) {
      const int id = first_replica(communicator) + i;
      values.push_back(Tensor::from(std::vector<int>(static_cast<std::size_t>(id), id)).to(device_of(i)));
    }
    for (const Tensor& value : values) inputs.push_back(value.view());
    std::vector<std::int64_t> rows;
    std::vector<int> expected;
    for (int r = 0; r < replicas; ++r) {
      rows.push_back(r);
      expected.insert(expected.end(), static_cast<std::size_t>(r), r);
    }
    Tensor result(DType::i32, Shape{static_cast<std::int64_t>(expected.size())}, nullptr, device_of(0));
    const TensorView output = result.view();
    const Item item{inputs, std::span(&output, 1)};
    ops.gather(communicator, std::span(&item, 1), rows);
    EXPECT_EQ(elements_from<int>(result), expected);
  });
}

}  // namespace lockstep::test
