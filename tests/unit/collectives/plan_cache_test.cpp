// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/plan_cache.hpp"

#include "unit/collectives/scripted.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::detail {
namespace {

/// Calls that differ in the address of their tensor.
class Calls {
 public:
  explicit Calls(std::size_t count) : values_(count) {
    for (float& value : values_) views_.push_back({&value, DType::f32, Shape{1}, Device{}});
    for (TensorView& view : views_) items_.push_back({{}, std::span(&view, 1)});
  }
  [[nodiscard]] CallKey key(std::size_t number, std::string_view name = {}) const {
    return {.kind = Call::barrier().kind,
            .op = ReduceOp::sum,
            .root = -1,
            .order = -1,
            .name = name,
            .only_name = false,
            .place = 1,
            .items = std::span(items_).subspan(number, 1)};
  }

 private:
  std::vector<float> values_;
  std::vector<TensorView> views_;
  std::vector<Item> items_;
};

TEST(PlanCache, finds_the_operations_of_a_sequence_that_is_repeated_and_changes) {
  const Calls calls(6);
  PlanCache cache;
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t k = 0; k < 6; ++k) {
    EXPECT_EQ(cache.find(calls.key(k)), nullptr);
    cache.add(calls.key(k), operations.emplace_back(scripted()));
  }
  for (const std::size_t k :
       std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0, 2, 1, 1, 1, 5, 4, 3, 2, 1, 0, 0, 5, 0, 5, 0, 1, 2, 3, 4, 5})
    EXPECT_EQ(cache.find(calls.key(k)), operations[k]) << k;
  EXPECT_EQ(cache.find(calls.key(0, "another name")), nullptr);
}

TEST(PlanCache, keeps_what_was_used_last) {
  constexpr std::size_t room = 1024;
  const Calls calls(room + 2);
  PlanCache cache;
  std::vector<std::shared_ptr<Operation>> operations;
  for (std::size_t k = 0; k < room; ++k) cache.add(calls.key(k), operations.emplace_back(scripted()));
  EXPECT_EQ(cache.find(calls.key(0)), operations[0]);
  EXPECT_EQ(cache.find(calls.key(1)), operations[1]);  // found after 0
  EXPECT_EQ(cache.find(calls.key(0)), operations[0]);
  for (std::size_t k = room; k < room + 2; ++k) cache.add(calls.key(k), operations.emplace_back(scripted()));
  EXPECT_EQ(cache.find(calls.key(2)), nullptr);
  EXPECT_EQ(cache.find(calls.key(3)), nullptr);
  for (const std::size_t k : std::vector<std::size_t>{0, 1, 4, 1023, 1024, 1025})
    EXPECT_EQ(cache.find(calls.key(k)), operations[k]) << k;
}

TEST(PlanCache, has_one_operation_for_a_call) {
  const Calls calls(2);
  PlanCache cache;
  const auto first = scripted();
  const auto second = scripted();
  cache.add(calls.key(0), first);
  cache.add(calls.key(1), first);
  EXPECT_EQ(cache.find(calls.key(0)), first);
  EXPECT_EQ(cache.find(calls.key(1)), first);
  EXPECT_EQ(cache.find(calls.key(0)), first);  // it was found after 1
  cache.add(calls.key(0), second);
  EXPECT_EQ(cache.find(calls.key(1)), first);
  EXPECT_EQ(cache.find(calls.key(0)), second);
}

}  // namespace
}  // namespace lockstep::detail
