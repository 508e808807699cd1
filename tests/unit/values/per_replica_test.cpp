// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/print.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep::test {
namespace {

template <class T>
std::string text_of(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

static_assert(!std::is_convertible_v<PerReplica<float>, float>);
static_assert(std::is_convertible_v<Mirrored<float>, float>);

TEST(PerReplica, holds_one_component_per_local_replica) {
  PerReplica<std::string> value({"a", "b"}, 4);
  value.component(1) = "c";
  EXPECT_EQ(value.size(), 2);
  EXPECT_EQ(value.first_replica(), 4);
  EXPECT_EQ(value.component(0), "a");
  EXPECT_EQ(value.component(1), "c");
}

TEST(PerReplica, of_bool_stores_its_components_separately) {
  PerReplica<bool> value({true, false});
  bool& second = value.component(1);
  second = true;
  EXPECT_TRUE(value.component(1));
}

TEST(PerReplica, refuses_empty_lists_and_wrong_indices) {
  expect_error(Code::invalid_argument, {"list of components is empty"},
               [] { PerReplica<int> value(std::vector<int>{}); });
  expect_error(Code::invalid_argument, {"-1"}, [] { PerReplica<int> value({1}, -1); });
  expect_error(Code::out_of_range, {"index is 2; it must be from 0 to 1"},
               [] { (void)PerReplica<int>({1, 2}).component(2); });
  expect_error(Code::out_of_range, {"-1"}, [] { (void)PerReplica<int>({1, 2}).component(-1); });
}

TEST(PerReplica, has_a_single_value_only_with_one_replica) {
  EXPECT_EQ(PerReplica<int>({5}).value(), 5);
  expect_error(Code::failed_precondition, {"2 components", "reduce", "experimental_local_results"},
               [] { (void)PerReplica<int>({5, 5}).value(); });
}

TEST(PerReplica, prints_ids_and_components) {
  EXPECT_EQ(text_of(PerReplica<float>({1.5F, 2.0F})), "PerReplica:{0: 1.5, 1: 2}");
  EXPECT_EQ(text_of(PerReplica<std::vector<int>>({{1, 2}, {}}, 3)), "PerReplica:{3: [1, 2], 4: []}");
  EXPECT_EQ(text_of(PerReplica<Tensor>({Tensor::from(std::vector<float>{1, 2, 3, 4}).reshaped(Shape{2, 2})})),
            "PerReplica:{0: [[1, 2], [3, 4]]}");
}

TEST(Mirrored, converts_to_its_value) {
  const Mirrored<float> value({3.0F, 3.0F});
  const float plain = value;
  EXPECT_EQ(plain, 3.0F);
  EXPECT_EQ(value.value(), 3.0F);
  EXPECT_EQ(text_of(value), "Mirrored:{0: 3, 1: 3}");
}

TEST(Mirrored, on_one_device_gives_every_replica_the_same_copy) { EXPECT_EQ(Mirrored<int>({4}).component(3), 4); }

}  // namespace
}  // namespace lockstep::test
