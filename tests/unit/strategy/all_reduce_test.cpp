// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions in replica context.

#include "unit/strategy/strategies.hpp"

#include "support/function_ref.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <tuple>

namespace lockstep::test {
namespace {

TEST(AllReduce, gives_every_replica_the_sum_and_the_mean) {
  MirroredStrategy strategy = mirrored(3);
  const auto [sum, mean] = strategy.run(
      [](ReplicaContext& replica, float x) {
        return std::tuple(replica.all_reduce(ReduceOp::sum, x), replica.all_reduce(ReduceOp::mean, x));
      },
      PerReplica<float>({1, 2, 6}));
  EXPECT_EQ(components(sum), (std::vector<float>(3, 9.0F)));
  EXPECT_EQ(components(mean), (std::vector<float>(3, 3.0F)));
}

TEST(AllReduce, takes_a_number_of_each_replica_as_one_contribution) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(components(strategy.run([](ReplicaContext& r) { return r.all_reduce(ReduceOp::sum, 3.0F); })),
            (std::vector<float>{6, 6}));
}

TEST(AllReduce, of_a_tree_is_one_collective_over_its_leaves) {
  MirroredStrategy strategy = mirrored(2);
  using Tree = std::tuple<float, std::map<std::string, std::vector<double>>, std::vector<Tensor>, std::array<int, 2>>;
  const auto before = strategy.statistics().collectives;
  strategy.run([](ReplicaContext& replica) {
    const float id = static_cast<float>(replica.replica_id_in_sync_group());
    const Tree tree{id, {{"a", {1, 2}}}, {Tensor::scalar(id), Tensor::from(std::vector<std::int64_t>{5})}, {1, 2}};
    const Tree sum = replica.all_reduce(ReduceOp::sum, tree);
    EXPECT_EQ(std::get<0>(sum), 1.0F);
    EXPECT_EQ(std::get<1>(sum).at("a"), (std::vector<double>{2, 4}));
    EXPECT_EQ(elements_of<float>(std::get<2>(sum)[0]), (std::vector<float>{1}));
    EXPECT_EQ(elements_of<std::int64_t>(std::get<2>(sum)[1]), (std::vector<std::int64_t>{10}));
    EXPECT_EQ(std::get<3>(sum), (std::array<int, 2>{2, 4}));
    EXPECT_EQ(elements_of<float>(std::get<2>(tree)[0]), (std::vector<float>{id}));  // the argument is unchanged
  });
  EXPECT_EQ(strategy.statistics().collectives, before + 1);
}

TEST(AllReduce, reduces_spans_and_views_in_place) {
  MirroredStrategy strategy = mirrored(2);
  strategy.run([](ReplicaContext& replica) {
    const float id = static_cast<float>(replica.replica_id_in_sync_group());
    std::vector<float> a{id, 1};
    std::vector<float> b{10 * id};
    std::vector<std::span<float>> spans{a, b};
    auto& same = replica.all_reduce(ReduceOp::sum, spans);
    EXPECT_EQ(&same, &spans);
    EXPECT_EQ(a, (std::vector<float>{1, 2}));
    EXPECT_EQ(b, (std::vector<float>{10}));
    const std::array<TensorView, 2> views{view_of(std::span(a)), view_of(std::span(b))};
    replica.all_reduce(ReduceOp::mean, std::span<const TensorView>(views));
    EXPECT_EQ(a, (std::vector<float>{1, 2}));
    replica.all_reduce(ReduceOp::sum, std::span(a));
    EXPECT_EQ(a, (std::vector<float>{2, 4}));
  });
}

/// Long enough that waiting replicas share the work if they have processors of their own.
TEST(AllReduce, of_long_vectors_shares_the_work_among_the_replicas) {
  MirroredStrategy strategy = mirrored(2);
  constexpr std::size_t count = 1'000'003;
  const auto sums = strategy.run([](ReplicaContext& replica) {
    std::vector<float> values(count);
    for (std::size_t k = 0; k < count; ++k)
      values[k] = static_cast<float>(k % 1000) + static_cast<float>(replica.replica_id_in_sync_group());
    return replica.all_reduce(ReduceOp::sum, values);
  });
  std::vector<float> expected(count);
  for (std::size_t k = 0; k < count; ++k) expected[k] = static_cast<float>(2 * (k % 1000) + 1);
  EXPECT_EQ(components(sums), std::vector(2, expected));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, sums).front(), 2.0F);  // by this thread; the other one shares the work
}

TEST(AllReduce, of_an_empty_tensor_is_valid) {
  MirroredStrategy strategy = mirrored(2);
  const auto result = strategy.run(
      [](ReplicaContext& r) { return r.all_reduce(ReduceOp::sum, std::tuple(std::vector<float>{}, 1.0F)); });
  EXPECT_TRUE(std::get<0>(result).component(1).empty());
  EXPECT_EQ(std::get<1>(result).component(1), 2.0F);
}

TEST(AllReduce, with_one_replica_returns_the_value) {
  OneDeviceStrategy strategy;
  strategy.run([](ReplicaContext& r) {
    EXPECT_EQ(r.all_reduce(ReduceOp::mean, std::vector<float>{1, 2}), (std::vector<float>{1, 2}));
    const Tensor mean = r.all_reduce(ReduceOp::mean, Tensor::from(std::vector<int>{1, 2}));
    EXPECT_EQ(elements_of<double>(mean), (std::vector<double>{1, 2}));
  });
}

TEST(AllReduce, gives_the_mean_of_integers_as_a_f64_tensor_and_refuses_typed_ones) {
  MirroredStrategy strategy = mirrored(2);
  strategy.run([](ReplicaContext& r) {
    const Tensor mean = r.all_reduce(ReduceOp::mean, Tensor::scalar(r.replica_id_in_sync_group()));
    EXPECT_EQ(elements_of<double>(mean), (std::vector<double>{0.5}));
  });
  expect_error(Code::invalid_argument, {"i32", "mean", "f64"},
               [&] { strategy.run([](ReplicaContext& r) { (void)r.all_reduce(ReduceOp::mean, 1); }); });
}

TEST(AllReduce, can_be_called_in_loops_and_branches) {
  MirroredStrategy strategy = mirrored(4);
  const auto sums = strategy.run([](ReplicaContext& replica) {
    float x = static_cast<float>(replica.replica_id_in_sync_group());
    for (int i = 0; i < 200; ++i) {
      if (x >= 0) x = replica.all_reduce(ReduceOp::mean, x) + 1;
    }
    return x;
  });
  EXPECT_EQ(components(sums), (std::vector<float>(4, 201.5F)));
}

TEST(AllReduce, of_different_shapes_dtypes_ops_or_leaves_is_a_mismatch_on_every_replica) {
  MirroredStrategy strategy = mirrored(3);
  const auto refused = [&](std::initializer_list<std::string> parts, FunctionRef<void(ReplicaContext&, bool)> body) {
    std::atomic<int> errors{0};
    strategy.run([&](ReplicaContext& replica) {
      expect_error(Code::mismatch, parts, [&] { body(replica, replica.local_replica() == 2); });
      ++errors;
      EXPECT_EQ(replica.all_reduce(ReduceOp::sum, 1.0F), 3.0F);  // the step continues
    });
    EXPECT_EQ(errors, 3);
  };
  refused({"all_reduce", "shape", "[3] on replica 2", "[2] on replica 0"},
          [](ReplicaContext& r, bool odd) { (void)r.all_reduce(ReduceOp::sum, std::vector<float>(odd ? 3 : 2)); });
  refused({"dtype", "f64 on replica 2", "f32 on replica 0"}, [](ReplicaContext& r, bool odd) {
    odd ? (void)r.all_reduce(ReduceOp::sum, 1.0) : (void)r.all_reduce(ReduceOp::sum, 1.0F);
  });
  refused({"op", "mean on replica 2", "sum on replica 0"},
          [](ReplicaContext& r, bool odd) { (void)r.all_reduce(odd ? ReduceOp::mean : ReduceOp::sum, 1.0F); });
  refused({"number of values", "2 on replica 2", "1 on replica 0"}, [](ReplicaContext& r, bool odd) {
    std::vector<float> a(2), b(2);
    std::vector<std::span<float>> spans{a};
    if (odd) spans.emplace_back(b);
    (void)r.all_reduce(ReduceOp::sum, spans);
  });
}

TEST(AllReduce, against_another_call_is_an_error_on_every_replica) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::failed_precondition, {"all_reduce", "merge_call", "replica 1", "replica 0"}, [&] {
    strategy.run([](ReplicaContext& replica) {
      if (replica.local_replica() == 0) {
        (void)replica.all_reduce(ReduceOp::sum, 1.0F);
      } else {
        replica.merge_call([](Strategy&) {});
      }
    });
  });
}

}  // namespace
}  // namespace lockstep::test
