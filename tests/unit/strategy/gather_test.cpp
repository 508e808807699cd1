// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// gather, and the collectives of replicas: all_gather, broadcast, sparse all_reduce, gradients.

#include "unit/strategy/strategies.hpp"

#include <atomic>
#include <map>
#include <tuple>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

/// [1], [2, 2], [3, 3, 3], ...
Floats part(const ReplicaContext& replica) {
  const int id = replica.replica_id_in_sync_group();
  return Floats(static_cast<std::size_t>(id + 1), static_cast<float>(id + 1));
}

TEST(Gather, concatenates_uneven_parts) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 2}, {1, 1, 1}}) {
    on_workers(layout, [](Strategy& strategy) {
      const auto parts = strategy.run([](ReplicaContext& r) { return part(r); });
      EXPECT_EQ(strategy.gather(parts, 0), (Floats{1, 2, 2, 3, 3, 3}));
      EXPECT_EQ(strategy.gather(parts, -1), (Floats{1, 2, 2, 3, 3, 3}));
      const auto wide = strategy.run([](ReplicaContext& r) {
        const Floats row = part(r);
        Floats both = row;
        for (const float x : row) both.push_back(10 * x);
        return tensor(both, Shape{2, static_cast<std::int64_t>(row.size())});
      });
      const Tensor columns = strategy.gather(wide, 1);
      EXPECT_EQ(columns.shape(), (Shape{2, 6}));
      EXPECT_EQ(elements_of<float>(columns), (Floats{1, 2, 2, 3, 3, 3, 10, 20, 20, 30, 30, 30}));
    });
  }
}

TEST(Gather, takes_every_dtype_empty_parts_and_trees) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Tensor> flags({Tensor(DType::boolean, Shape{1}), Tensor(DType::boolean, Shape{2})});
  EXPECT_EQ(strategy.gather(flags, 0).shape(), Shape{3});
  const PerReplica<Tensor> with_empty({Tensor(DType::f32, Shape{0, 2}), tensor({1, 2}, Shape{1, 2})});
  EXPECT_EQ(elements_of<float>(strategy.gather(with_empty, 0)), (Floats{1, 2}));
  EXPECT_EQ(strategy.gather(PerReplica<Tensor>({Tensor(DType::f32, Shape{0, 2}), Tensor(DType::f32, Shape{0, 3})}), 1)
                .shape(),
            (Shape{0, 5}));
  const std::map<std::string, std::tuple<PerReplica<std::vector<int>>, Floats>> tree{
      {"a", {PerReplica<std::vector<int>>({{1}, {2, 3}}), Floats{7}}}};
  const auto gathered = strategy.gather(tree, 0);
  EXPECT_EQ(std::get<0>(gathered.at("a")), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(std::get<1>(gathered.at("a")), (Floats{7}));
}

TEST(Gather, refuses_parts_that_cannot_be_concatenated) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Tensor> scalars({Tensor::scalar(1.0F), Tensor::scalar(2.0F)});
  expect_error(Code::invalid_argument, {"gather: the value is a scalar", "along axis 0", "shape [1]"},
               [&] { (void)strategy.gather(scalars, 0); });
  const PerReplica<Tensor> rows({tensor({1, 2}, Shape{1, 2}), tensor({1, 2, 3}, Shape{1, 3})});
  expect_error(Code::invalid_argument, {"gather", "[1, 3] on replica 1", "[1, 2] on replica 0", "axis 0"},
               [&] { (void)strategy.gather(rows, 0); });
  expect_error(Code::invalid_argument, {"gather", "axis 2"}, [&] { (void)strategy.gather(rows, 2); });
  const PerReplica<IndexedSlices> sparse({slices({1}, {1}, 5), slices({1}, {2}, 5)});
  expect_error(Code::unimplemented, {"gather", "IndexedSlices", "to_dense"}, [&] { (void)strategy.gather(sparse, 0); });
  expect_error(Code::failed_precondition, {"gather", "replica context", "all_gather"},
               [&] { strategy.run([&](ReplicaContext&) { (void)strategy.gather(scalars, 0); }); });
}

TEST(Gather, fails_with_the_same_error_on_all_ranks) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const auto value = strategy.run(
        [](ReplicaContext& r) { return Tensor(DType::f32, Shape{1, r.replica_id_in_sync_group() == 2 ? 3 : 2}); });
    expect_error(Code::invalid_argument, {"gather", "[1, 3] on replica 2", "[1, 2] on replica 0"},
                 [&] { (void)strategy.gather(value, 0); });
    expect_error(Code::mismatch, {"gather", "axis"},
                 [&] { (void)strategy.gather(value, strategy.communicator().rank()); });
    EXPECT_EQ(strategy.gather(value, 1).shape(), (Shape{1, 7}));
  });
}

TEST(AllGather, gives_every_replica_the_parts_of_all) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 2}, {1, 1, 1}}) {
    on_workers(layout, [](Strategy& strategy) {
      const auto gathered = strategy.run([](ReplicaContext& r) {
        const Floats mine = part(r);
        const auto [list, columns] =
            r.all_gather(std::tuple(mine, tensor(mine, Shape{1, static_cast<std::int64_t>(mine.size())})), -1);
        EXPECT_EQ(columns.shape(), (Shape{1, 6}));
        EXPECT_EQ(elements_of<float>(columns), list);
        return list;
      });
      for (const Floats& list : components(gathered)) EXPECT_EQ(list, (Floats{1, 2, 2, 3, 3, 3}));
    });
  }
}

TEST(AllGather, is_refused_on_every_replica_and_the_step_continues) {
  MirroredStrategy strategy = mirrored(3);
  std::atomic<int> errors{0};
  strategy.run([&](ReplicaContext& r) {
    const bool odd = r.local_replica() == 2;
    expect_error(Code::invalid_argument, {"all_gather", "[2, 3] on replica 2"},
                 [&] { (void)r.all_gather(Tensor(DType::f32, Shape{2, odd ? 3 : 2}), 0); });
    expect_error(Code::mismatch, {"all_gather", "axis is 1 on replica 2 but 0 on replica 0"},
                 [&] { (void)r.all_gather(Tensor(DType::f32, Shape{2, 2}), odd ? 1 : 0); });
    expect_error(Code::unimplemented, {"all_gather", "IndexedSlices"},
                 [&] { (void)r.all_gather(slices({1}, {1}, 5), 0); });
    ++errors;
    EXPECT_EQ(r.all_reduce("SUM", 1.0F), 3.0F);
  });
  EXPECT_EQ(errors, 3);
}

TEST(AllGather, against_an_all_reduce_of_another_rank_is_a_mismatch_on_both) {
  on_workers({1, 1}, [](Strategy& strategy) {
    expect_error(Code::mismatch, {"all_reduce", "all_gather"}, [&] {
      strategy.run([](ReplicaContext& r) {
        if (r.replica_id_in_sync_group() == 0) {
          (void)r.all_reduce("SUM", Floats{1, 2});
        } else {
          (void)r.all_gather(Floats{1, 2}, 0);
        }
      });
    });
    EXPECT_EQ(strategy.reduce("SUM", strategy.run([] { return 1; })), 2);
  });
}

TEST(AllGather, with_one_replica_is_the_value) {
  OneDeviceStrategy one;
  EXPECT_EQ(one.run([](ReplicaContext& r) { return r.all_gather(Floats{1, 2}, 0); }), (Floats{1, 2}));
  EXPECT_EQ(get_replica_context()->all_gather(Floats{1, 2}, 0), (Floats{1, 2}));
}

TEST(Broadcast, gives_every_replica_the_roots_values) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {1, 2}, {1, 1, 1}}) {
    on_workers(layout, [](Strategy& strategy) {
      strategy.run([](ReplicaContext& r) {
        const int id = r.replica_id_in_sync_group();
        const auto [number, list] = r.broadcast(std::tuple(id, Floats{static_cast<float>(id), 5}), 2);
        EXPECT_EQ(number, 2);
        EXPECT_EQ(list, (Floats{2, 5}));
        EXPECT_EQ(r.broadcast(10 * id), 0);
        Floats in_place{static_cast<float>(id)};
        std::vector<std::span<float>> spans{in_place};
        r.broadcast(spans, 1);
        EXPECT_EQ(in_place, (Floats{1}));
      });
    });
  }
}

TEST(Broadcast, of_different_roots_or_no_replica_is_refused) {
  MirroredStrategy strategy = mirrored(2);
  strategy.run([](ReplicaContext& r) {
    expect_error(Code::invalid_argument, {"broadcast", "root is 2", "0 to 1"}, [&] { (void)r.broadcast(1, 2); });
    expect_error(Code::mismatch, {"broadcast", "root is 1 on replica 1 but 0 on replica 0"},
                 [&] { (void)r.broadcast(1, r.local_replica()); });
  });
  on_workers({2, 1}, [](Strategy& workers) {
    expect_error(Code::mismatch, {"broadcast"}, [&] {
      workers.run([](ReplicaContext& r) { (void)r.broadcast(1, r.replica_id_in_sync_group() == 2 ? 1 : 0); });
    });
  });
}

TEST(SparseAllReduce, mixes_with_dense_leaves) {
  for (const std::vector<int>& layout : {std::vector<int>{2}, {1, 1}}) {
    on_workers(layout, [](Strategy& strategy) {
      strategy.run([](ReplicaContext& r) {
        const bool first = r.replica_id_in_sync_group() == 0;
        const IndexedSlices x = first ? slices({1}, {1, 2}, 5) : slices({1, 3}, {3, 4, 5, 6}, 5);
        const auto [a, sparse, b] = r.all_reduce("SUM", std::tuple(1.0F, x, Floats{first ? 1.0F : 2.0F}));
        EXPECT_EQ(a, 2.0F);
        EXPECT_EQ(b, (Floats{3}));
        EXPECT_EQ(elements_of<std::int64_t>(sparse.indices), (std::vector<std::int64_t>{1, 1, 3}));
        EXPECT_EQ(elements_of<float>(to_dense(r.all_reduce("MEAN", x))), (Floats{0, 0, 2, 3, 0, 0, 2.5, 3, 0, 0}));
      });
    });
  }
}

TEST(SparseAllReduce, of_different_trees_is_a_mismatch_on_every_replica) {
  MirroredStrategy strategy = mirrored(2);
  strategy.run([](ReplicaContext& r) {
    const bool odd = r.local_replica() == 1;
    const auto x = slices({1}, {1}, 5);
    expect_error(Code::mismatch, {"all_reduce", "number of IndexedSlices", "2 on replica 1", "1 on replica 0"},
                 [&] { (void)r.all_reduce("SUM", std::vector<IndexedSlices>(odd ? 2 : 1, x)); });
    expect_error(Code::mismatch, {"all_reduce", "op is mean on replica 1"},
                 [&] { (void)r.all_reduce(odd ? "MEAN" : "SUM", x); });
    expect_error(Code::mismatch, {"all_reduce", "dense value 0", "f32[3] on replica 1", "f32[2]"},
                 [&] { (void)r.all_reduce("SUM", std::tuple(x, Floats(odd ? 3 : 2))); });
    expect_error(Code::invalid_argument, {"all_reduce", "max of IndexedSlices"},
                 [&] { (void)r.all_reduce(ReduceOp::max, x); });
  });
}

TEST(Gradient, of_an_all_reduce_is_that_all_reduce_of_the_upstream) {
  MirroredStrategy strategy = mirrored(2);
  strategy.run([](ReplicaContext& r) {
    EXPECT_EQ(all_reduce_gradient(r, "SUM", 2.0F), 4.0F);
    EXPECT_EQ(all_reduce_gradient(r, "MEAN", 2.0F), 2.0F);
    expect_error(Code::invalid_argument, {"all_reduce_gradient", "max"},
                 [&] { (void)all_reduce_gradient(r, ReduceOp::max, 2.0F); });
  });
}

/// The sum over all replicas of sum_k c_k(replica) * y_k, where y is all_gather(x): the gradient of each x is found by
/// changing x by one step, since the loss is linear.
TEST(Gradient, of_an_all_gather_equals_finite_differences) {
  MirroredStrategy strategy = mirrored(3);
  strategy.run([](ReplicaContext& r) {
    const auto total_loss = [&](const Floats& x) {
      const Floats y = r.all_gather(x, 0);
      float loss = 0;
      for (std::size_t k = 0; k < y.size(); ++k)
        loss += static_cast<float>((r.local_replica() + 1) * static_cast<int>(k + 1)) * y[k];
      return r.all_reduce("SUM", loss);
    };
    const Floats x = part(r);
    Floats upstream(6);
    for (std::size_t k = 0; k < 6; ++k)
      upstream[k] = static_cast<float>((r.local_replica() + 1) * static_cast<int>(k + 1));
    const Floats gradient = all_gather_gradient(r, upstream, 0, static_cast<std::int64_t>(x.size()));
    ASSERT_EQ(gradient.size(), x.size());
    const float before = total_loss(x);
    // changes one element of one replica at a time; all replicas compute the loss
    for (int owner = 0; owner < 3; ++owner) {
      for (std::size_t k = 0; k < static_cast<std::size_t>(owner + 1); ++k) {
        Floats moved = x;
        if (owner == r.local_replica()) moved[k] += 1;
        const float change = total_loss(moved) - before;
        if (owner == r.local_replica()) {
          EXPECT_EQ(gradient[k], change);
        }
      }
    }
  });
}

TEST(Gradient, of_an_all_gather_along_another_axis_is_its_own_columns) {
  on_workers({1, 1}, [](Strategy& strategy) {
    strategy.run([](ReplicaContext& r) {
      const int id = r.replica_id_in_sync_group();
      const Tensor upstream = tensor({1, 2, 3, 4, 5, 6}, Shape{2, 3});
      const Tensor mine = all_gather_gradient(r, upstream, -1, id + 1);
      EXPECT_EQ(mine.shape(), (Shape{2, id + 1}));
      EXPECT_EQ(elements_of<float>(mine), id == 0 ? (Floats{2, 8}) : (Floats{4, 6, 10, 12}));
      expect_error(Code::invalid_argument, {"all_gather_gradient", "add up to 2", "[2, 3]", "3 along axis 1"},
                   [&] { (void)all_gather_gradient(r, upstream, 1, 1); });
    });
  });
}

}  // namespace
}  // namespace lockstep::test
