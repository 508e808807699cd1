// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives in steps of replicas on GPUs, and the devices of their results.

#include "unit/strategy/contract.hpp"

#include <lockstep/context/gradients.hpp>
#include <sstream>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

TEST_P(StrategyContract, all_reduce_gives_each_replica_the_sum_on_the_device_of_its_input) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    const auto sums = strategy.run([](ReplicaContext& replica) {
      const auto x = static_cast<float>(replica.replica_id_in_sync_group() + 1);
      const Tensor sum = replica.all_reduce("SUM", tensor_of(replica, Floats{x, 10 * x}));
      EXPECT_TRUE(same_place(sum.device(), replica.devices().front()));
      return sum;
    });
    const auto total = static_cast<float>(n * (n + 1) / 2);
    for (const Tensor& sum : components(sums)) EXPECT_EQ(elements_from<float>(sum), (Floats{total, 10 * total}));
  });
}

TEST_P(StrategyContract, all_reduce_takes_every_op_and_type_in_place_and_out_of_place) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    strategy.run([n](ReplicaContext& replica) {
      const int id = replica.replica_id_in_sync_group();
      Tensor values = tensor_of(replica, std::vector<std::int32_t>{id, -id});
      EXPECT_EQ(elements_from<std::int32_t>(replica.all_reduce(ReduceOp::max, values)), (std::vector{n - 1, 0}));
      EXPECT_EQ(elements_from<std::int32_t>(replica.all_reduce(ReduceOp::min, values)), (std::vector{0, 1 - n}));
      const Tensor mean = replica.all_reduce("MEAN", values);  // of integers: f64
      EXPECT_EQ(mean.dtype(), DType::f64);
      EXPECT_EQ(elements_from<double>(mean).front(), (n - 1) / 2.0);
      const TensorView view = values.view();
      replica.all_reduce("SUM", std::span(&view, 1));
      EXPECT_EQ(elements_from<std::int32_t>(values), (std::vector{n * (n - 1) / 2, n * (1 - n) / 2}));
      const Tensor empty = replica.all_reduce("SUM", tensor_of(replica, Floats{}));
      EXPECT_EQ(empty.element_count(), 0);
    });
  });
}

TEST_P(StrategyContract, one_tree_may_have_leaves_on_the_host_and_on_gpus) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    strategy.run([n](ReplicaContext& replica) {
      const auto [loss, gradient, counts] =
          replica.all_reduce("SUM", std::tuple(0.5, tensor_of(replica, Floats{1, 2}), std::vector<int>{1, 2}));
      EXPECT_EQ(loss, 0.5 * n);
      EXPECT_EQ(elements_from<float>(gradient), (Floats{1.0F * static_cast<float>(n), 2.0F * static_cast<float>(n)}));
      EXPECT_EQ(counts, (std::vector{n, 2 * n}));
    });
  });
}

TEST_F(OnGpus, replicas_may_have_the_same_leaf_on_different_devices) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  strategy.run([](ReplicaContext& replica) {
    const bool here = replica.local_replica() == 0;
    const Tensor mine = here ? Tensor::from(Floats{1}) : tensor_of(replica, Floats{2});
    const Tensor sum = replica.all_reduce("SUM", mine);
    EXPECT_TRUE(same_place(sum.device(), mine.device()));
    EXPECT_EQ(elements_from<float>(sum), Floats{3});
  });
}

TEST_P(StrategyContract, all_gather_concatenates_components_along_any_axis) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    strategy.run([n](ReplicaContext& replica) {
      const int id = replica.replica_id_in_sync_group();
      // replica r has r + 1 rows
      const Tensor rows = tensor_of(replica, std::vector<std::int32_t>(static_cast<std::size_t>(id) + 1, id));
      const Tensor all = replica.all_gather(rows, 0);
      EXPECT_TRUE(same_place(all.device(), replica.devices().front()));
      std::vector<std::int32_t> expected;
      for (int r = 0; r < n; ++r) expected.insert(expected.end(), static_cast<std::size_t>(r) + 1, r);
      EXPECT_EQ(elements_from<std::int32_t>(all), expected);
      const Tensor columns = replica.all_gather(tensor_of(replica, Floats{1, 2}).reshaped(Shape{2, 1}), 1);
      EXPECT_EQ(columns.shape(), (Shape{2, n}));
      EXPECT_TRUE(same_place(columns.device(), replica.devices().front()));
      Floats wanted(static_cast<std::size_t>(n), 1);
      wanted.insert(wanted.end(), static_cast<std::size_t>(n), 2);
      EXPECT_EQ(elements_from<float>(columns), wanted);
    });
  });
}

TEST_P(StrategyContract, broadcast_gives_the_values_of_any_replica) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    strategy.run([n](ReplicaContext& replica) {
      const auto id = static_cast<float>(replica.replica_id_in_sync_group());
      for (int root = 0; root < n; ++root) {
        const Tensor got = replica.broadcast(tensor_of(replica, Floats{id, 5}), root);
        EXPECT_TRUE(same_place(got.device(), replica.devices().front()));
        EXPECT_EQ(elements_from<float>(got), (Floats{static_cast<float>(root), 5}));
      }
    });
  });
}

TEST_P(StrategyContract, sparse_rows_are_concatenated_and_a_mean_divides_them) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    strategy.run([n](ReplicaContext& replica) {
      const int id = replica.replica_id_in_sync_group();
      const Device place = replica.devices().front();
      IndexedSlices mine = slices({id}, {8, 4}, n);
      mine = {mine.values.to(place), mine.indices.to(place), mine.rows};
      const IndexedSlices all = replica.all_reduce("MEAN", mine);
      EXPECT_TRUE(same_place(all.values.device(), place));
      EXPECT_EQ(all.values.shape(), (Shape{n, 2}));
      std::vector<std::int64_t> indices;
      for (int r = 0; r < n; ++r) indices.push_back(r);
      EXPECT_EQ(elements_from<std::int64_t>(all.indices), indices);
      EXPECT_EQ(elements_from<float>(all.values).front(), 8.0F / static_cast<float>(n));
      EXPECT_EQ(to_dense(all).shape(), (Shape{n, 2}));
    });
  });
}

TEST_P(StrategyContract, merge_call_merges_tensors_and_gives_each_replica_its_part) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    strategy.run([n](ReplicaContext& replica) {
      const Tensor mine = tensor_of(replica, Floats{1, static_cast<float>(replica.replica_id_in_sync_group())});
      const Tensor sum = replica.merge_call(
          [](Strategy& of, const PerReplica<Tensor>& all) { return of.extended().reduce_to("SUM", all, all); }, mine);
      EXPECT_TRUE(same_place(sum.device(), mine.device()));
      EXPECT_EQ(elements_from<float>(sum), (Floats{static_cast<float>(n), static_cast<float>(n * (n - 1) / 2)}));
    });
  });
}

TEST_P(StrategyContract, gradients_of_gathered_values_are_on_the_devices_of_the_values) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    strategy.run([n](ReplicaContext& replica) {
      Floats upstream;
      for (int r = 0; r < n; ++r) upstream.push_back(static_cast<float>(r));
      const Tensor part = all_gather_gradient(replica, tensor_of(replica, upstream), 0, 1);
      EXPECT_TRUE(same_place(part.device(), replica.devices().front()));
      const auto id = static_cast<float>(replica.replica_id_in_sync_group());
      EXPECT_EQ(elements_from<float>(part), Floats{id * static_cast<float>(n)});
    });
  });
}

TEST_F(OnGpus, results_of_a_step_stay_on_the_devices_and_print) {
  MirroredStrategy strategy({"gpu:0", "gpu:0#1"});
  const auto results = strategy.run([](ReplicaContext& replica) {
    return tensor_of(replica, Floats{static_cast<float>(replica.replica_id_in_sync_group()), 2});
  });
  EXPECT_EQ(results.component(0).device(), gpu(0));
  EXPECT_EQ(results.component(1).device(), gpu(0, 1));
  std::ostringstream text;
  text << results;
  EXPECT_EQ(text.str(), "PerReplica:{0: [0, 2], 1: [1, 2]}");
  expect_error(Code::failed_precondition, {"gpu:0", "to(Device{})"},
               [&] { (void)results.component(0).elements<float>(); });
}

}  // namespace
}  // namespace lockstep::test
