// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nests of values: every function takes the same leaves in lists, arrays, maps, structs and empty parts.

#include "unit/strategy/strategies.hpp"

#include "support/function_ref.hpp"

#include <array>
#include <list>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

struct Metrics {
  float loss = 0;
  int count = 0;
  std::string unit = "nats";  // no member of the tree
};

struct Rows {
  Tensor images;
  Floats labels;
};

}  // namespace
}  // namespace lockstep::test

template <>
struct lockstep::tree_members<lockstep::test::Metrics> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Metrics::loss, &lockstep::test::Metrics::count);
};
template <>
struct lockstep::tree_members<lockstep::test::Rows> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Rows::images, &lockstep::test::Rows::labels);
};

namespace lockstep::test {
namespace {

TEST(Nests, of_numbers_are_reduced_one_by_one) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<float> loss({1, 2}), accuracy({3, 4});
  EXPECT_EQ(strategy.reduce("SUM", std::vector{loss, accuracy}), (Floats{3, 7}));
  EXPECT_EQ(strategy.reduce("SUM", std::vector{loss}), (Floats{3}));
  EXPECT_EQ(strategy.reduce("SUM", std::array{loss, accuracy}), (std::array{3.0F, 7.0F}));
  EXPECT_EQ(strategy.reduce("SUM", std::list{loss, accuracy}), (std::list{3.0F, 7.0F}));
  EXPECT_EQ(strategy.reduce<double>("MEAN", std::vector{PerReplica<int>({1, 2})}), (std::vector<double>{1.5}));
  EXPECT_EQ(
      strategy.reduce(ReduceOp::max, std::vector{PerReplica<bool>({false, true}), PerReplica<bool>({false, false})}),
      (std::vector<bool>{true, false}));
  const std::map<std::string, std::vector<std::array<PerReplica<float>, 2>>> deep{{"a", {{loss, accuracy}}}, {"b", {}}};
  const auto sums = strategy.reduce("SUM", deep);
  EXPECT_EQ(sums.at("a"), (std::vector<std::array<float, 2>>{{3, 7}}));
  EXPECT_TRUE(sums.at("b").empty());
}

TEST(Nests, that_are_empty_give_empty_nests) {
  MirroredStrategy strategy = mirrored(2);
  const std::vector<PerReplica<float>> none;
  const PerReplica<float> loss({1, 2});
  EXPECT_TRUE(strategy.reduce("SUM", none).empty());
  EXPECT_TRUE(strategy.reduce("SUM", std::vector<PerReplica<Floats>>{}, 0).empty());
  EXPECT_TRUE(strategy.gather(std::vector<PerReplica<Floats>>{}, 0).empty());
  expect_error(Code::invalid_argument, {"max along an axis"},
               [&] { (void)strategy.reduce(ReduceOp::max, std::vector<PerReplica<Floats>>{}, 0); });
  EXPECT_EQ(strategy.reduce("SUM", std::pair(none, loss)), std::pair(Floats{}, 3.0F));
  EXPECT_EQ(strategy.reduce("SUM", std::optional<PerReplica<float>>{}), std::nullopt);
  EXPECT_TRUE(strategy.extended().reduce_to("SUM", none, "cpu:0").empty());
  EXPECT_TRUE(strategy.experimental_local_results(none).front().empty());
}

TEST(Nests, of_integers_and_floats_have_a_mean_in_the_type_that_is_named) {
  MirroredStrategy strategy = mirrored(2);
  const std::pair counted(PerReplica<int>({1, 2}), PerReplica<float>({1, 2}));
  EXPECT_EQ(strategy.reduce<double>("MEAN", counted), std::pair(1.5, 1.5));
  expect_error(Code::invalid_argument, {"mean of i32 is f64", "reduce<double>"},
               [&] { (void)strategy.reduce("MEAN", counted); });
  expect_error(Code::invalid_argument, {"the mean is f64, which the result type f32 cannot hold", "reduce<double>"},
               [&] { (void)strategy.reduce<float>("MEAN", counted); });
  const auto v = strategy.variable<float>(2.5F);
  EXPECT_EQ(strategy.reduce<double>("MEAN", std::tuple(v, PerReplica<BFloat16>({BFloat16(1), BFloat16(2)}))),
            std::tuple(2.5, 1.5));
  EXPECT_EQ(strategy.reduce<double>(
                "MEAN", std::pair(PerReplica<Floats>({{1, 2}, {4}}), PerReplica<std::vector<int>>({{1}, {2, 6}})), 0),
            std::pair(double(7.0F / 3), 3.0));
}

TEST(Nests, have_results_of_the_type_that_is_named) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<std::int64_t> large({1, 2});
  EXPECT_EQ(strategy.reduce<double>("MEAN", std::pair(large, std::int64_t{3})), std::pair(1.5, 3.0));
  const auto step = strategy.variable<std::int64_t>(std::int64_t{4});
  EXPECT_EQ(strategy.reduce<double>("MEAN", step), 4.0);
  expect_error(Code::invalid_argument, {"the sum is i64", "a result type that holds every i64"},
               [&] { (void)strategy.reduce<double>("SUM", large); });
  EXPECT_EQ(strategy.reduce<std::int64_t>("SUM", std::pair(large, PerReplica<int>({3, 4}))),
            (std::pair<std::int64_t, std::int64_t>(3, 7)));
  const PerReplica<Tensor> tensors({Tensor::from({1, 2}), Tensor::from({3, 4})});
  EXPECT_EQ(strategy.reduce<double>("SUM", tensors, 0), 10.0);
  EXPECT_EQ(strategy.reduce<std::vector<double>>("SUM", tensors), (std::vector<double>{4, 6}));
  EXPECT_EQ(elements_of<int>(strategy.reduce<Tensor>("SUM", PerReplica<int>({1, 2}))), (std::vector<int>{3}));
  EXPECT_EQ(elements_of<float>(strategy.reduce<Tensor>("MEAN", Floats{1, 2})), (Floats{1, 2}));
}

TEST(Nests, in_components_are_reduced_member_by_member) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<std::tuple<float, Floats>> pairs({{1.0F, Floats{1, 2}}, {2.0F, Floats{3, 4}}});
  EXPECT_EQ(strategy.reduce("SUM", pairs), std::tuple(3.0F, Floats{4, 6}));
  EXPECT_EQ(strategy
                .reduce("MEAN", PerReplica<std::map<std::string, std::vector<Floats>>>(
                                    {{{"a", {{1, 2}, {3}}}}, {{"a", {{3, 4}, {5}}}}}))
                .at("a"),
            (std::vector<Floats>{{2, 3}, {4}}));
  EXPECT_EQ(strategy.gather(PerReplica<std::pair<Floats, Floats>>({{{1}, {2}}, {{3, 4}, {}}}), 0),
            std::pair(Floats{1, 3, 4}, Floats{2}));
  const Mirrored<std::tuple<float, Floats>> copies =
      strategy.extended().reduce_to("SUM", pairs, strategy.variable<float>(0.0F));
  EXPECT_EQ(copies.size(), 2);
  EXPECT_EQ(copies.component(1), std::tuple(3.0F, Floats{4, 6}));
  const auto batch = strategy.extended().batch_reduce_to("SUM", std::vector{std::pair(pairs, "cpu:0")});
  EXPECT_EQ(batch.front().value(), std::tuple(3.0F, Floats{4, 6}));
  expect_error(Code::invalid_argument, {"the number of elements", "replica 1"}, [&] {
    (void)strategy.reduce("SUM", PerReplica<std::vector<Floats>>({std::vector<Floats>{{1}}, std::vector<Floats>{}}));
  });
}

TEST(Nests, that_are_structs_keep_the_names_of_their_members) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Metrics> metrics = strategy.run([](ReplicaContext& replica) {
    return Metrics{static_cast<float>(replica.replica_id_in_sync_group()), 3, "bits"};
  });
  EXPECT_EQ(metrics.component(1).loss, 1.0F);
  const Metrics sum = strategy.reduce("SUM", metrics);
  EXPECT_EQ(sum.loss, 1.0F);
  EXPECT_EQ(sum.count, 6);
  EXPECT_EQ(sum.unit, "bits");
  const std::vector<Metrics> local = strategy.experimental_local_results(metrics);
  EXPECT_EQ(local[1].loss, 1.0F);
  const Mirrored<Metrics> copies = strategy.extended().reduce_to("SUM", metrics, metrics);
  EXPECT_EQ(copies.component(1).count, 6);
  const std::map<std::string, Metrics> named =
      strategy.reduce("SUM", std::map<std::string, PerReplica<Metrics>>{{"a", metrics}});
  EXPECT_EQ(named.at("a").count, 6);
  const PerReplica<int> counts = strategy.run([](const Metrics& mine) { return mine.count; }, metrics);
  EXPECT_EQ(counts.component(1), 3);
  strategy.run(
      [&](ReplicaContext& replica, const Metrics& mine) {
        const Metrics all = replica.all_reduce("SUM", mine);
        EXPECT_EQ(all.count, 6);
        const int merged = replica.merge_call(
            [](Strategy& s, const PerReplica<Metrics>& m) { return s.reduce("SUM", m).count; }, mine);
        EXPECT_EQ(merged, 6);
      },
      metrics);
}

TEST(Nests, that_are_structs_are_gathered_and_reduced_along_axes) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Rows> rows({Rows{Tensor::from(Floats{1, 2}), {1}}, Rows{Tensor::from(Floats{3}), {2, 3}}});
  const Rows all = strategy.gather(rows, 0);
  EXPECT_EQ(elements_of<float>(all.images), (Floats{1, 2, 3}));
  EXPECT_EQ(all.labels, (Floats{1, 2, 3}));
  const std::tuple<Tensor, float> means = strategy.reduce("MEAN", rows, 0);
  EXPECT_EQ(elements_of<float>(std::get<0>(means)), (Floats{2}));
  EXPECT_EQ(std::get<1>(means), 2.0F);
}

TEST(Nests, that_are_unordered_maps_are_taken_in_the_order_of_their_keys) {
  MirroredStrategy strategy = mirrored(2);
  std::unordered_map<int, float> up, down;
  for (int i = 0; i < 1000; ++i) up[i] = static_cast<float>(i);
  for (int i = 1000; i-- > 0;) down[i] = static_cast<float>(i);
  strategy.run([&](ReplicaContext& replica) {
    const auto sums = replica.all_reduce("SUM", replica.replica_id_in_sync_group() == 0 ? up : down);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(sums.at(i), 2.0F * static_cast<float>(i));
  });
}

/// Runs `call(strategy, differs)` on 3 ranks with 1, 2 and 1 replicas: with equal arguments, then with other arguments
/// on rank 1 (all ranks must get Error(mismatch) with `texts`), and then again with equal arguments.
void expect_compared(FunctionRef<void(Strategy&, bool differs)> call, const std::vector<std::string>& texts) {
  on_workers({1, 2, 1}, [&](Strategy& strategy) {
    EXPECT_NO_THROW(call(strategy, false));
    const bool differs = strategy.communicator().rank() == 1;
    expect_error(Code::mismatch, texts, [&] { call(strategy, differs); });
    EXPECT_NO_THROW(call(strategy, false));
  });
}

/// The same 2 x 2 matrix on each local replica.
PerReplica<Tensor> matrices(Strategy& strategy) {
  return strategy.run([] { return tensor({1, 2, 3, 4}, {2, 2}); });
}

TEST(Agreement, compares_the_axes_of_a_reduction) {
  for (const char* const op : {"SUM", "MEAN"}) {
    expect_compared([&](Strategy& s, bool differs) { (void)s.reduce(op, matrices(s), differs ? 1 : 0); },
                    {"along axis 0", "along axis 1"});
    expect_compared([&](Strategy& s, bool differs) { (void)s.reduce(op, matrices(s), differs ? Axes{0, 1} : Axes{1}); },
                    {"along axes 0, 1", "along axis 1"});
    expect_compared(
        [&](Strategy& s, bool differs) {
          differs ? (void)s.reduce(op, matrices(s)) : (void)s.reduce(op, matrices(s), 0);
        },
        {"along axis 0", "reduce"});
  }
  expect_compared([](Strategy& s, bool differs) { (void)s.reduce(differs ? "MEAN" : "SUM", matrices(s), 0); },
                  {"sum of f32 along axis 0", "mean of f32 along axis 0"});
  expect_compared(
      [](Strategy& s, bool differs) {
        (void)s.reduce("MEAN", s.run([&] { return Tensor(differs ? DType::i64 : DType::i32, Shape{2}); }), 0);
      },
      {"mean of i32 along axis 0", "mean of i64 along axis 0"});
  expect_compared(
      [](Strategy& s, bool differs) {
        const auto of = [&](DType dtype) { return s.run([&] { return Tensor(dtype, Shape{2}); }); };
        (void)s.reduce("MEAN", std::vector{of(DType::i32), of(differs ? DType::i32 : DType::i64), of(DType::i64)}, 0);
      },
      {"mean of i32 along axis 0; 2 x i64 along axis 0", "mean of 2 x i32 along axis 0; i64 along axis 0"});
  expect_compared(
      [](Strategy& s, bool differs) {
        const PerReplica<float> number = s.run([] { return 1.0F; });
        const PerReplica<Floats> list = s.run([] { return Floats{1, 2}; });
        differs ? (void)s.reduce("SUM", list, 0) : (void)s.reduce("SUM", number);
      },
      {"sum of f32 along axis 0"});
}

TEST(Agreement, compares_the_types_of_results_that_are_named) {
  expect_compared(
      [](Strategy& s, bool differs) {
        const PerReplica<float> number = s.run([] { return 1.0F; });
        differs ? (void)s.reduce<double>("SUM", number) : (void)s.reduce<float>("SUM", number);
      },
      {"result f32", "result f64"});
}

TEST(Agreement, takes_a_negative_axis_for_the_axis_that_it_names) {
  on_workers({1, 2, 1}, [](Strategy& strategy) {
    const bool is_first = strategy.communicator().rank() == 0;
    const ReduceOpArgument sum = is_first ? ReduceOpArgument("sum") : ReduceOpArgument(ReduceOp::sum);
    EXPECT_EQ(elements_of<float>(strategy.reduce(sum, matrices(strategy), is_first ? -1 : 1)), (Floats{12, 28}));
    EXPECT_EQ(elements_of<float>(strategy.reduce(sum, matrices(strategy), is_first ? Axes{-1, 0} : Axes{0, 1})),
              (Floats{40}));
  });
}

TEST(Agreement, of_a_gather_compares_the_axes_that_are_named) {
  expect_compared([](Strategy& s, bool differs) { (void)s.gather(matrices(s), differs ? 1 : 0); },
                  {"gather: axis is 1 on replica 1 but 0 on replica 0"});
  expect_compared(
      [](Strategy& s, bool differs) { (void)s.gather(std::pair(matrices(s), matrices(s)), differs ? -1 : -2); },
      {"gather: axis is 1 on replica 1 but 0 on replica 0"});
  on_workers({1, 2, 1}, [](Strategy& strategy) {
    EXPECT_EQ(strategy.gather(matrices(strategy), strategy.communicator().rank() == 1 ? -1 : 1).shape(), (Shape{2, 8}));
    const auto gathered = strategy.run([](ReplicaContext& replica) {
      return replica.all_gather(tensor({1, 2}, {2, 1}), replica.replica_id_in_sync_group() == 1 ? -1 : 1);
    });
    EXPECT_EQ(gathered.component(0).shape(), (Shape{2, 4}));
  });
}

TEST(Agreement, compares_the_axes_also_in_packs) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerMirroredStrategy strategy(communicator, {.communication_options = {.bytes_per_pack = 4}});
    const bool is_first = communicator.rank() == 0;
    expect_error(Code::mismatch, {"along axis 0", "along axis 1"},
                 [&] { (void)strategy.reduce("SUM", matrices(strategy), is_first ? 0 : 1); });
  });
}

TEST(Agreement, compares_the_structures_of_nests) {
  using Parameters = std::map<std::string, float>;
  const auto parameters = [](bool differs) { return Parameters{{differs ? "c" : "a", 1}, {"b", 2}}; };
  const std::vector<std::string> texts{"{a: *, b: *}", "{b: *, c: *}"};
  expect_compared([&](Strategy& s, bool differs) { (void)s.reduce("SUM", s.run([&] { return parameters(differs); })); },
                  texts);
  expect_compared(
      [&](Strategy& s, bool differs) {
        (void)s.extended().reduce_to("SUM", s.run([&] { return parameters(differs); }), "cpu:0");
      },
      texts);
  expect_compared(
      [&](Strategy& s, bool differs) {
        s.run([&](ReplicaContext& replica) { (void)replica.all_reduce("SUM", parameters(differs)); });
      },
      texts);
  expect_compared(
      [&](Strategy& s, bool differs) {
        s.run([&](ReplicaContext& replica) { (void)replica.broadcast(parameters(differs)); });
      },
      texts);
  expect_compared(
      [&](Strategy& s, bool differs) {
        s.run([&](ReplicaContext& replica) {
          (void)replica.all_gather(std::map<std::string, Floats>{{differs ? "c" : "a", {1}}, {"b", {2}}}, 0);
        });
      },
      texts);
}

TEST(Agreement, compares_the_lengths_of_nests_of_which_one_is_empty) {
  const auto list = [](Strategy& s, bool differs) {
    return differs ? std::vector<PerReplica<Floats>>{} : std::vector{s.run([] { return Floats{1}; })};
  };
  expect_compared([&](Strategy& s, bool differs) { (void)s.reduce("SUM", list(s, differs)); }, {"0 tensors"});
  expect_compared([&](Strategy& s, bool differs) { (void)s.reduce("SUM", list(s, differs), 0); }, {"0 tensors"});
  expect_compared([&](Strategy& s, bool differs) { (void)s.gather(list(s, differs), 0); }, {"gather"});
  expect_compared([&](Strategy& s, bool differs) { (void)s.extended().reduce_to("SUM", list(s, differs), "cpu:0"); },
                  {"0 tensors"});
  expect_compared(
      [&](Strategy& s, bool differs) {
        std::vector<std::pair<PerReplica<Floats>, const char*>> pairs;
        for (const auto& value : list(s, differs)) pairs.emplace_back(value, "cpu:0");
        (void)s.extended().batch_reduce_to("SUM", pairs);
      },
      {"0 tensors"});
}

TEST(Agreement, compares_the_structures_of_the_list_of_a_batch) {
  using Values = std::vector<PerReplica<float>>;
  expect_compared(
      [](Strategy& s, bool differs) {
        const PerReplica<float> x = s.run([] { return 1.0F; });
        std::vector<std::pair<Values, const char*>> pairs{{{x, x}, "cpu:0"}, {{x}, "cpu:0"}};
        if (differs) std::swap(pairs[0].first, pairs[1].first);
        (void)s.extended().batch_reduce_to("SUM", pairs);
      },
      {"[[2 x *], [1 x *]]", "[[1 x *], [2 x *]]"});
  expect_compared(
      [](Strategy& s, bool differs) {
        ReducePair dense{s.run([] { return Tensor::from({1.0F}); }), "cpu:0"};
        ReducePair sparse{s.run([] { return slices({0}, {1}, 2); }), "cpu:0"};
        if (differs) std::swap(dense, sparse);
        (void)s.extended().batch_reduce_to("SUM", std::vector{dense, sparse});
      },
      {"dense, sparse", "sparse, dense"});
}

TEST(Agreement, compares_plain_values_that_count_once_per_rank) {
  const auto expect = [](FunctionRef<void(Strategy&, bool)> call, const std::vector<std::string>& texts) {
    on_workers({1, 1}, [&](Strategy& strategy) {
      EXPECT_NO_THROW(call(strategy, false));
      const bool differs = strategy.communicator().rank() == 1;
      expect_error(Code::mismatch, texts, [&] { call(strategy, differs); });
      EXPECT_NO_THROW(call(strategy, false));
    });
  };
  const Tensor x = Tensor::scalar(1.0F);
  expect([&](Strategy& s,
             bool differs) { (void)s.reduce("SUM", std::map<std::string, Tensor>{{differs ? "b" : "a", x}}); },
         {"{a: *}", "{b: *}"});
  expect([&](Strategy& s, bool differs) { (void)s.reduce("SUM", differs ? std::vector<Tensor>{} : std::vector{x}); },
         {"0 tensors"});
  expect(
      [](Strategy& s, bool differs) {
        const auto v = s.sync_on_read_variable<float>(1.0F, {.aggregation = VariableAggregation::sum});
        using Variables = std::vector<SyncOnReadVariable<float>>;
        std::pair<Variables, Variables> pair{{v, v}, {v}};
        if (differs) std::swap(pair.first, pair.second);
        (void)s.reduce("SUM", pair);
      },
      {"([2 x *], [1 x *])", "([1 x *], [2 x *])"});
}

TEST(Agreement, compares_keys_of_every_type) {
  const auto expect_keys = []<class Key>(const Key& a, const Key& b, const std::vector<std::string>& texts) {
    expect_compared(
        [&](Strategy& s, bool differs) {
          (void)s.reduce("SUM", s.run([&] { return std::map<Key, float>{{differs ? b : a, 1.0F}}; }));
        },
        texts);
  };
  expect_keys(std::pair(1, 1), std::pair(2, 2), {"{(1, 1): *}", "{(2, 2): *}"});
  expect_keys(1e-9, 2e-9, {"{1e-09: *}", "{2e-09: *}"});
  expect_keys(true, false, {"{true: *}", "{false: *}"});
  const std::string name(80, 'x');
  expect_keys(name + "a", name + "b", {"may differ after the part that is shown"});
}

TEST(Agreement, of_the_replicas_of_a_rank_compares_the_structures_of_nests) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::mismatch, {"the structure is {b: *} on replica 1 but {a: *} on replica 0"}, [&] {
    strategy.run([](ReplicaContext& replica) {
      const bool is_first = replica.replica_id_in_sync_group() == 0;
      (void)replica.all_reduce("SUM", std::map<std::string, float>{{is_first ? "a" : "b", 1}});
    });
  });
}

}  // namespace
}  // namespace lockstep::test
