// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copying batches to GPUs.

#include "unit/strategy/gpu_strategies.hpp"

#include <cstdint>

namespace lockstep::test {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST_F(OnGpus, batches_are_on_the_replicas_devices) {
  on_each_layout([](MirroredStrategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    for (const int ahead : {0, 2}) {
      const auto data = Dataset<Tensor>::range(8 * n).batch(2 * n);
      int steps = 0;
      for (const auto& batch : strategy.experimental_distribute_dataset(data, {.prefetch_batches = ahead})) {
        strategy.run(
            [&](ReplicaContext& replica, const Tensor& rows) {
              EXPECT_TRUE(same_place(rows.device(), replica.devices().front()));
              const std::int64_t first = 2 * (steps * n + replica.replica_id_in_sync_group());
              EXPECT_EQ(elements_from<std::int64_t>(rows), (Numbers{first, first + 1}));
            },
            batch);
        ++steps;
      }
      EXPECT_EQ(steps, 4);
    }
  });
}

TEST_F(OnGpus, datasets_accept_tensors_on_gpus) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const Tensor there = Tensor::from(Numbers{1, 2, 3, 4}).to(gpu(1));
  const auto data =
      Dataset<Tensor>::from_tensor_slices(there).map([](const Tensor& x) { return x.to(gpu(0)); }).batch(4);
  int steps = 0;
  for (const auto& batch : strategy.experimental_distribute_dataset(data)) {
    EXPECT_EQ(elements_from<std::int64_t>(batch.component(0)), (Numbers{1, 2}));
    EXPECT_EQ(elements_from<std::int64_t>(batch.component(1)), (Numbers{3, 4}));
    ++steps;
  }
  EXPECT_EQ(steps, 1);
  const auto stacked = array_dataset(std::vector<Tensor>{there, Tensor::from(Numbers{5, 6, 7, 8})});
  EXPECT_EQ(stacked.cardinality().count(), 2);
  EXPECT_EQ(elements_of<float>(input::scale_to_float(there, 0.5F)), (std::vector{0.5F, 1.0F, 1.5F, 2.0F}));
}

TEST_F(OnGpus, batches_stay_in_host_memory_if_the_options_say_so) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto data = Dataset<Tensor>::range(4).batch(4);
  for (const auto& batch : strategy.experimental_distribute_dataset(data, {.experimental_fetch_to_device = false})) {
    EXPECT_EQ(batch.component(1).device(), Device{});
    EXPECT_EQ(elements_of<std::int64_t>(batch.component(1)), (Numbers{2, 3}));
  }
}

TEST_F(OnGpus, batches_in_use_are_not_overwritten) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  std::vector<Tensor> kept;
  {
    auto batches = strategy.experimental_distribute_dataset(Dataset<Tensor>::range(64).batch(4)).iterate();
    while (auto batch = batches.get_next_as_optional()) {
      if (kept.size() < 3) kept.push_back(batch->component(1));
    }
  }
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const auto first = static_cast<std::int64_t>(4 * k + 2);
    EXPECT_EQ(elements_from<std::int64_t>(kept[k]), (Numbers{first, first + 1}));
  }
}

TEST_F(OnGpus, memory_of_destroyed_batches_is_reused) {
  const std::size_t before = gpus_.cuda().used_bytes(0);
  {
    OneDeviceStrategy strategy("gpu:0");
    for (const auto& batch : strategy.experimental_distribute_dataset(Dataset<Tensor>::range(1 << 16).batch(1 << 10))) {
      EXPECT_LT(gpus_.cuda().used_bytes(0), before + 16 * sizeof(std::int64_t) * (1U << 10));
      EXPECT_EQ(batch.value().device(), gpu(0));
    }
  }
  EXPECT_TRUE(gpus_.cuda().wait_for_all());
  EXPECT_EQ(gpus_.cuda().used_bytes(0), before);
}

TEST_F(OnGpus, replicas_without_data_get_batches_without_rows_on_their_devices) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto data = strategy.distribute_datasets_from_function(
      [](const InputContext&) { return Dataset<Tensor>::range(3).batch(1); });
  int steps = 0;
  for (const auto& batch : data) {
    EXPECT_EQ(batch.component(0).device(), gpu(0));
    EXPECT_EQ(batch.component(1).device(), gpu(1));
    EXPECT_EQ(batch.component(1).element_count(), steps == 0 ? 1 : 0);
    const auto has_data =
        strategy.run([](ReplicaContext& replica, const Tensor&) { return replica.has_data(); }, batch);
    EXPECT_EQ(has_data.component(1), steps == 0);
    ++steps;
  }
  EXPECT_EQ(steps, 2);
}

TEST_F(OnGpus, a_device_that_fails_ends_the_pass_with_the_reason) {
  OneDeviceStrategy strategy("gpu:0");
  auto batches = strategy.experimental_distribute_dataset(Dataset<Tensor>::range(8).batch(4)).iterate();
  gpus_.cuda().fail_next_work(0, detail::cuda::Status::illegal_address);
  const auto read_all = [&] {
    while (batches.get_next_as_optional()) {}
    (void)Tensor(DType::f32, Shape{1}, nullptr, gpu(0)).to(Device{});
  };
  expect_error(Code::unavailable, {"cuda"}, read_all);
}

}  // namespace
}  // namespace lockstep::test
