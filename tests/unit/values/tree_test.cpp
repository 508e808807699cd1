// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/values/detail/structure.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/tree.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

namespace lockstep::test {

struct Metrics {
  float loss = 0;
  int count = 0;
};

/// An aggregate with aggregates inside containers.
struct Report {
  std::vector<Metrics> layers;
  std::variant<Metrics, std::string> last;
};

}  // namespace lockstep::test

template <>
struct lockstep::tree_members<lockstep::test::Metrics> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Metrics::loss, &lockstep::test::Metrics::count);
};
template <>
struct lockstep::tree_members<lockstep::test::Report> {
  static constexpr auto pointers = std::tuple(&lockstep::test::Report::layers, &lockstep::test::Report::last);
};

namespace lockstep::test {
namespace {

template <class T>
auto merge(std::vector<T> trees) {
  return detail::merge_trees<T>(static_cast<int>(trees.size()), 0,
                                [&](int i) -> T& { return trees[static_cast<std::size_t>(i)]; });
}

static_assert(std::is_same_v<merged_t<float>, PerReplica<float>>);
static_assert(std::is_same_v<merged_t<std::vector<float>>, PerReplica<std::vector<float>>>);
static_assert(std::is_same_v<merged_t<std::vector<Tensor>>, std::vector<PerReplica<Tensor>>>);
static_assert(std::is_same_v<merged_t<std::pair<int, bool>>, std::pair<PerReplica<int>, PerReplica<bool>>>);
static_assert(std::is_same_v<merged_t<std::tuple<int, std::tuple<double>>>,
                             std::tuple<PerReplica<int>, std::tuple<PerReplica<double>>>>);
static_assert(std::is_same_v<merged_t<std::map<std::string, int>>, std::map<std::string, PerReplica<int>>>);
static_assert(std::is_same_v<merged_t<std::optional<int>>, std::optional<PerReplica<int>>>);
static_assert(std::is_same_v<merged_t<std::array<float, 3>>, PerReplica<std::array<float, 3>>>);
static_assert(std::is_same_v<merged_t<std::array<Tensor, 2>>, std::array<PerReplica<Tensor>, 2>>);
static_assert(std::is_same_v<merged_t<Metrics>, PerReplica<Metrics>>);
static_assert(std::is_same_v<merged_t<std::vector<Metrics>>, std::vector<PerReplica<Metrics>>>);
static_assert(std::is_same_v<merged_t<std::string>, PerReplica<std::string>>);
static_assert(std::is_same_v<merged_t<std::variant<int, std::tuple<float>>>,
                             std::variant<PerReplica<int>, std::tuple<PerReplica<float>>>>);
static_assert(std::is_same_v<merged_t<std::tuple<std::monostate, std::nullptr_t, int>>,
                             std::tuple<std::monostate, std::nullptr_t, PerReplica<int>>>);
static_assert(detail::has_distributed_leaf<std::variant<int, std::vector<PerReplica<int>>>>);
static_assert(!detail::has_distributed_leaf<std::variant<int, std::monostate>>);
static_assert(detail::refers_everywhere<std::vector<std::span<float>>>);
static_assert(!detail::refers_everywhere<std::tuple<std::span<float>, float>>);

TEST(Tree, visits_leaves_from_left_to_right) {
  std::tuple<int, std::vector<std::pair<int, int>>, std::optional<int>, Metrics> tree{
      1, {{2, 3}, {4, 5}}, 6, {7.0F, 8}};
  std::vector<double> seen;
  for_each_leaf(tree, [&](auto leaf) { seen.push_back(static_cast<double>(leaf)); });
  EXPECT_EQ(seen, (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Tree, is_mapped_leaf_by_leaf) {
  const std::tuple<int, std::map<std::string, int>> tree{1, {{"a", 2}, {"b", 3}}};
  const auto text = map_leaves(tree, [](int leaf) { return std::to_string(leaf * 10); });
  EXPECT_EQ(std::get<0>(text), "10");
  EXPECT_EQ(std::get<1>(text).at("b"), "30");
}

TEST(Tree, keeps_an_aggregate_whose_leaves_keep_their_types) {
  const Metrics metrics{1.5F, 2};
  const Metrics doubled = map_leaves(metrics, [](auto leaf) { return static_cast<decltype(leaf)>(leaf * 2); });
  EXPECT_EQ(doubled.loss, 3.0F);
  EXPECT_EQ(doubled.count, 4);
}

TEST(Tree, merges_each_leaf_even_if_values_are_equal) {
  const auto merged = merge<std::tuple<float, std::vector<std::string>>>({{1.0F, {"a", "b"}}, {1.0F, {"c", "d"}}});
  EXPECT_EQ(std::get<0>(merged).size(), 2);
  EXPECT_EQ(std::get<1>(merged)[1].component(0), "b");
  EXPECT_EQ(std::get<1>(merged)[1].component(1), "d");
}

TEST(Tree, merges_an_empty_container_to_an_empty_one) {
  EXPECT_TRUE((merge<std::map<std::string, int>>({{}, {}}).empty()));
  EXPECT_TRUE((merge<std::vector<std::string>>({{}, {}}).empty()));
  EXPECT_FALSE((merge<std::optional<int>>({std::nullopt, std::nullopt}).has_value()));
  [[maybe_unused]] const std::tuple<> nothing = merge<std::tuple<>>({{}, {}});
}

TEST(Tree, refuses_to_merge_different_structures) {
  expect_error(Code::invalid_argument, {"number of elements"},
               [] { (void)merge<std::vector<std::string>>({{"a"}, {"a", "b"}}); });
  expect_error(Code::invalid_argument, {"keys"},
               [] { (void)merge<std::map<std::string, int>>({{{"a", 1}}, {{"b", 1}}}); });
  expect_error(Code::invalid_argument, {"optional"}, [] { (void)merge<std::optional<int>>({1, std::nullopt}); });
}

TEST(Tree, merges_the_alternative_that_all_variants_hold) {
  using Either = std::variant<int, std::vector<std::string>>;
  const auto merged = merge<Either>({std::vector<std::string>{"a"}, std::vector<std::string>{"b"}});
  EXPECT_EQ(std::get<1>(merged).front().component(1), "b");
  EXPECT_EQ(std::get<0>(merge<Either>({1, 2})).component(1), 2);
  expect_error(Code::invalid_argument, {"variant"}, [] { (void)merge<Either>({1, std::vector<std::string>{"b"}}); });
}

TEST(Tree, merges_and_slices_aggregates_as_a_whole) {
  const std::pair<PerReplica<Report>, PerReplica<int>> merged =
      merge<std::pair<Report, int>>({{{{{1.0F, 2}}, "x"}, 5}, {{{{3.0F, 4}}, "y"}, 6}});
  EXPECT_EQ(merged.first.component(1).layers.front().loss, 3.0F);
  EXPECT_EQ(std::get<1>(merged.first.component(1).last), "y");
  const std::pair<Report, int> part = local_part(merged, 1);
  EXPECT_EQ(part.first.layers.front().count, 4);
  EXPECT_EQ(part.second, 6);
}

TEST(Tree, keeps_an_aggregate_that_is_made_from_cells) {
  const Report report{{{1.0F, 2}, {3.0F, 4}}, Metrics{5.0F, 6}};
  auto cells =
      map_leaves(report, [](const auto& leaf) { return detail::Cell<std::remove_cvref_t<decltype(leaf)>>{leaf}; });
  std::vector<double> seen;
  for_each_leaf(cells, [&](auto& cell) {
    if constexpr (std::is_arithmetic_v<decltype(cell.value)>) seen.push_back(++cell.value);
  });
  EXPECT_EQ(seen, (std::vector<double>{2, 3, 4, 5, 6, 7}));
  const Report made = map_leaves(cells, [](auto& cell) { return cell.value; });
  EXPECT_EQ(made.layers.back().loss, 4.0F);
  EXPECT_EQ(std::get<0>(made.last).count, 7);
}

TEST(Tree, has_its_structure_as_text_unless_the_number_of_leaves_determines_it) {
  using Lists = std::vector<std::vector<Tensor>>;
  const Tensor x;
  EXPECT_EQ(detail::structure_of(std::tuple(1, std::vector{x, x})), "");
  EXPECT_EQ(detail::structure_of(Lists{{x, x}, {}, {x}}), "[[2 x *], [0], [1 x *]]");
  EXPECT_EQ(detail::structure_of(std::map<std::string, Lists>{{"b", {{x}}}, {"a", {}}}), "{a: [], b: [[1 x *]]}");
  EXPECT_EQ(detail::structure_of(std::unordered_map<int, Metrics>{{7, {}}, {3, {}}}), "{3: (*, *), 7: (*, *)}");
  EXPECT_EQ(detail::structure_of(std::pair(std::optional<int>(), std::optional<int>(1))), "(none, *)");
  EXPECT_EQ(detail::structure_of(std::variant<int, float>(1.0F)), "#1 *");
  EXPECT_EQ(detail::structure_of(PerReplica<Lists>({Lists{{x}}})), "[[1 x *]]");
}

TEST(Tree, visits_the_alternative_that_a_variant_holds_and_nothing_in_a_monostate) {
  const std::tuple<std::variant<int, std::tuple<int, int>>, std::monostate> tree{std::tuple(1, 2), {}};
  std::vector<int> seen;
  for_each_leaf(tree, [&](int leaf) { seen.push_back(leaf); });
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST(Tree, merges_values_that_can_only_be_moved) {
  std::vector<std::unique_ptr<int>> values;
  values.push_back(std::make_unique<int>(1));
  values.push_back(std::make_unique<int>(2));
  const auto merged = detail::merge_trees<std::unique_ptr<int>>(
      2, 0, [&](int i) -> auto& { return values[static_cast<std::size_t>(i)]; });
  EXPECT_EQ(*merged.component(1), 2);
}

TEST(Tree, gives_each_replica_its_part) {
  const std::tuple<int, std::map<std::string, PerReplica<int>>, std::vector<PerReplica<int>>> tree{
      7, {{"k", PerReplica<int>({1, 2})}}, {PerReplica<int>({3, 4})}};
  const auto part = local_part(tree, 1);
  static_assert(std::is_same_v<std::remove_const_t<decltype(part)>,
                               std::tuple<int, std::map<std::string, int>, std::vector<int>>>);
  EXPECT_EQ(std::get<0>(part), 7);
  EXPECT_EQ(std::get<1>(part).at("k"), 2);
  EXPECT_EQ(std::get<2>(part).front(), 4);
}

}  // namespace
}  // namespace lockstep::test
