// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/communicator.hpp>

#include "support/errors.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::test {
namespace {

/// Runs one all_reduce on a communicator of one rank with two replicas; its error's text.
std::string refusal(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                    ReduceOp op = ReduceOp::sum) {
  CommunicatorOptions options;
  options.local_replicas = 2;
  Communicator comm = self_communicator(options);
  const Item item{inputs, outputs};
  try {
    comm.all_reduce(std::span(&item, 1), op);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument) << error.what();
    comm.barrier();  // still in order
    return error.text();
  }
  return "accepted";
}

class Validation : public testing::Test {
 protected:
  ConstTensorView in(std::size_t offset, std::int64_t count) {
    return {memory_.data() + offset, DType::f32, Shape{count}};
  }
  TensorView out(std::size_t offset, std::int64_t count) {
    return {memory_.data() + offset, DType::f32, Shape{count}, Device{}};
  }
  std::array<float, 64> memory_{};
};

TEST_F(Validation, accepts_an_output_that_is_the_same_view_as_an_input) {
  EXPECT_EQ(refusal(std::array{in(0, 8), in(8, 8)}, std::array{out(0, 8), out(8, 8)}), "accepted");
}

TEST_F(Validation, accepts_no_elements_and_no_outputs) {
  EXPECT_EQ(refusal(std::array{ConstTensorView(nullptr, DType::f32, Shape{0}), in(0, 0)}, std::array{out(0, 0)}),
            "accepted");
  EXPECT_EQ(refusal(std::array{in(0, 4), in(8, 4)}, {}), "accepted");
}

TEST_F(Validation, refuses_views_that_overlap_partly) {
  expect_all(refusal(std::array{in(0, 8), in(8, 8)}, std::array{out(4, 8)}),
             {"all_reduce: output 0 overlaps input 0 by 16 bytes"});
  expect_all(refusal(std::array{in(0, 8), in(8, 8)}, std::array{out(16, 8), out(20, 8)}), {"overlaps"});
}

TEST_F(Validation, refuses_an_input_that_is_the_output_of_another_item) {
  Communicator comm = self_communicator();
  const ConstTensorView inputs[]{in(0, 50), in(0, 64)};
  const TensorView outputs[]{{memory_.data(), DType::f32, Shape{64}, Device{}}};
  std::vector<float> elsewhere(50);
  const TensorView other = view_of(std::span<float>(elsewhere));
  const Item items[]{{std::span(inputs).first(1), std::span(&other, 1)}, {std::span(inputs).subspan(1), outputs}};
  expect_all(error_of([&] { comm.all_reduce(items, ReduceOp::sum); }),
             {"invalid_argument: all_reduce: input 0 of item 0 overlaps output 0 of item 1 by 200 bytes"});
}

TEST_F(Validation, refuses_a_wrong_number_of_inputs) {
  expect_all(refusal(std::array{in(0, 8)}, {}),
             {"all_reduce: the call has 1 input, but rank 0 has 2 replicas; pass one input for each replica"});
}

TEST_F(Validation, refuses_replicas_that_differ) {
  expect_all(refusal(std::array{in(0, 3), in(8, 4)}, {}), {"[4] on replica 1", "[3] on replica 0"});
  expect_all(refusal(std::array{in(0, 3), ConstTensorView(memory_.data(), DType::i32, Shape{3})}, {}), {"i32", "f32"});
}

TEST_F(Validation, refuses_an_output_of_another_shape_or_dtype) {
  expect_all(refusal(std::array{in(0, 3), in(8, 3)}, std::array{out(16, 4)}),
             {"all_reduce: output 0 has shape [4]", "the inputs have [3]"});
  const TensorView ints{memory_.data() + 16, DType::i32, Shape{3}, Device{}};
  expect_all(refusal(std::array{in(0, 3), in(8, 3)}, std::array{ints}), {"i32", "f32"});
}

TEST_F(Validation, refuses_sums_of_bool_and_says_what_bool_takes) {
  const ConstTensorView flags{memory_.data(), DType::boolean, Shape{3}};
  expect_all(refusal(std::array{flags, flags}, {}), {"sum", "bool", "min, max, band"});
}

TEST_F(Validation, refuses_bitwise_ops_of_floats_and_says_what_they_take) {
  expect_all(refusal(std::array{in(0, 3), in(8, 3)}, {}, ReduceOp::band),
             {"band does not take f32 elements", "integers and bool"});
}

TEST_F(Validation, refuses_null_addresses) {
  expect_all(refusal(std::array{ConstTensorView(nullptr, DType::f32, Shape{3}), in(0, 3)}, {}), {"null"});
}

TEST_F(Validation, refuses_tensors_some_of_which_lie_on_gpus) {
  const ConstTensorView elsewhere(memory_.data(), DType::f32, Shape{3}, {DeviceKind::gpu, 1});
  expect_all(refusal(std::array{elsewhere, in(0, 3)}, {}),
             {"all_reduce: input 1 (replica 1) is on cpu:0", "input 0 (replica 0) is on gpu:1"});
  const TensorView output{memory_.data(), DType::f32, Shape{3}, {DeviceKind::gpu, 1}};
  expect_all(refusal(std::array{in(0, 3), in(8, 3)}, std::array{output}), {"output 0 is on gpu:1", "cpu:0"});
}

TEST_F(Validation, refuses_a_root_that_does_not_exist) {
  Communicator comm = self_communicator();
  const ConstTensorView input = in(0, 3);
  const Item item{std::span(&input, 1), {}};
  EXPECT_THROW(comm.reduce(std::span(&item, 1), ReduceOp::sum, 1), Error);
  EXPECT_THROW(comm.gather(std::span(&item, 1), -1), Error);
}

TEST_F(Validation, refuses_no_replicas_and_no_ranks) {
  CommunicatorOptions options;
  options.local_replicas = 0;
  EXPECT_THROW((void)self_communicator(options), Error);
  EXPECT_THROW((void)thread_communicators({}), Error);
}

}  // namespace
}  // namespace lockstep::test
