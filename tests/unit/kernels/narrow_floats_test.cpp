// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// f16 and bf16 on every target, exhaustively: all 2^16 values are widened, and rounded to from nearby f32 values.

#include "kernels/scalar_reduce.hpp"
#include "support/quick.hpp"

#include <lockstep/core/float16.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace lockstep::detail {
namespace {

constexpr std::uint8_t one_input[]{0};
constexpr std::uint8_t two_inputs[]{0, 1};

template <class T>
std::vector<T> all_values() {
  std::vector<T> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) values.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  return values;
}

template <class T>
std::vector<std::uint16_t> bits_of(const std::vector<T>& values) {
  std::vector<std::uint16_t> bits;
  for (const T value : values) bits.push_back(value.bits());
  return bits;
}

/// Folds `piece` elements at a time: calls with few elements use the narrow vectors.
void fold_in_pieces(ReduceFunction function, Fold fold, std::size_t input_size, std::size_t output_size,
                    std::int64_t count, std::int64_t piece) {
  std::vector<FoldInput> inputs(fold.inputs.begin(), fold.inputs.end());
  std::vector<void*> outputs(fold.outputs.begin(), fold.outputs.end());
  fold.inputs = inputs;
  fold.outputs = outputs;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    function(fold, std::min(piece, count - begin));
    for (FoldInput& input : inputs) {
      input.data = static_cast<const std::byte*>(input.data) + static_cast<std::size_t>(piece) * input_size;
    }
    for (void*& output : outputs)
      output = static_cast<std::byte*>(output) + static_cast<std::size_t>(piece) * output_size;
  }
}

/// Folds one array of `input_size`-byte elements on every target, with several numbers of elements per call, and
/// expects these words.
template <class T, class Word>
void expect_folded(const FoldInput& input, std::size_t input_size, FoldResult result,
                   const std::vector<Word>& expected) {
  const auto count = static_cast<std::int64_t>(expected.size());
  for (const TargetFunction& target : functions_of_all_targets(ReduceOp::sum, dtype_of<T>)) {
    for (const std::int64_t piece : {count, std::int64_t{37}, std::int64_t{5}, std::int64_t{1}}) {
      std::vector<Word> got(expected.size());
      void* const output = got.data();
      fold_in_pieces(target.function,
                     {.dtype = dtype_of<T>,
                      .inputs = std::span(&input, 1),
                      .merges = one_input,
                      .outputs = std::span(&output, 1),
                      .result = result},
                     input_size, sizeof(Word), count, piece);
      ASSERT_EQ(got, expected) << target.target << ", pieces of " << piece;
    }
  }
}

template <class T>
class NarrowFloats : public testing::Test {};
using Formats = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(NarrowFloats, Formats);

TYPED_TEST(NarrowFloats, pass_through_with_nan_made_canonical) {
  const auto values = all_values<TypeParam>();
  std::vector<std::uint16_t> expected;
  for (const TypeParam value : values) expected.push_back(finish<TypeParam>(float(value)).bits());
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const TypeParam value = values[bits];
    if (value == value) {
      ASSERT_EQ(expected[bits], bits);
    }
  }
  expect_folded<TypeParam>({values.data(), false}, sizeof(TypeParam), FoldResult::finished, expected);
}

TYPED_TEST(NarrowFloats, widen_exactly) {
  const auto values = all_values<TypeParam>();
  std::vector<std::uint32_t> expected;
  for (const TypeParam value : values) expected.push_back(std::bit_cast<std::uint32_t>(float(value)));
  expect_folded<TypeParam>({values.data(), false}, sizeof(TypeParam), FoldResult::partial, expected);
}

/// For every value of the format: the value, the midpoints to its neighbours, and the f32 values next to those.
template <class T>
std::vector<float> around_all_values() {
  std::vector<std::uint32_t> bits;
  for (std::uint32_t low = 0; low < 0x8000; ++low) {
    const auto value = std::bit_cast<std::uint32_t>(float(T::from_bits(static_cast<std::uint16_t>(low))));
    for (const std::uint32_t distance : {0u, 1u, 2u}) {
      bits.push_back(value + distance);
      if (value >= distance) bits.push_back(value - distance);
    }
    const float next = float(T::from_bits(static_cast<std::uint16_t>(low + 1)));
    const float middle = std::bit_cast<float>(value) / 2 + next / 2;
    const auto between = std::bit_cast<std::uint32_t>(middle);
    bits.insert(bits.end(), {between, between + 1, between - 1});
  }
  bits.insert(bits.end(), {0x477fefffu, 0x477ff000u, 0x477ff001u, 0x7f7fffffu, 0x7f7f7fffu, 0x7f7f8000u, 0x7f800000u,
                           0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x33000000u, 0x33000001u, 0x32ffffffu});
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) bits.push_back(static_cast<std::uint32_t>(random()) & 0x7fffffffu);
  std::vector<float> values;
  for (const std::uint32_t word : bits) {
    values.push_back(std::bit_cast<float>(word & 0x7fffffffu));
    values.push_back(std::bit_cast<float>(word | 0x80000000u));
  }
  return values;
}

TYPED_TEST(NarrowFloats, round_to_nearest_even) {
  const auto values = around_all_values<TypeParam>();
  std::vector<std::uint16_t> expected;
  for (const float value : values) expected.push_back(TypeParam(value).bits());
  expect_folded<TypeParam>({values.data(), true}, sizeof(float), FoldResult::finished, expected);
}

/// Adds every value to each value of a set that causes ties, overflows and subnormals.
TYPED_TEST(NarrowFloats, add_pairs_of_leaves_and_round_once) {
  const auto values = all_values<TypeParam>();
  const auto count = static_cast<std::int64_t>(values.size());
  const auto functions = functions_of_all_targets(ReduceOp::sum, dtype_of<TypeParam>);
  for (std::uint32_t step = 0; step < 0x10000; step += 0x10000 / (test::is_quick() ? 17 : 97)) {
    std::vector<TypeParam> others;
    for (std::uint32_t i = 0; i < 0x10000; ++i) others.push_back(values[(i + step) & 0xffff]);
    std::vector<std::uint16_t> expected;
    for (std::size_t i = 0; i < values.size(); ++i) {
      expected.push_back(finish<TypeParam>(float(values[i]) + float(others[i])).bits());
    }
    const FoldInput inputs[]{{values.data(), false}, {others.data(), false}};
    for (const TargetFunction& target : functions) {
      std::vector<TypeParam> got(values.size());
      void* const output = got.data();
      target.function({.dtype = dtype_of<TypeParam>,
                       .inputs = inputs,
                       .merges = two_inputs,
                       .outputs = std::span(&output, 1),
                       .replicas = 2},
                      count);
      ASSERT_EQ(bits_of(got), expected) << target.target;
    }
  }
}

}  // namespace
}  // namespace lockstep::detail
