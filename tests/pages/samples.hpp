// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the twins of the pages' samples share. Where a sample has GPUs, its twin has logical processors; where it calls
// tf.function, its twin has nothing: C++ is compiled already.

#pragma once

#include "unit/strategy/strategies.hpp"

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::test {

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// `input * 2` of a tensor of i64.
inline Tensor doubled(const Tensor& input) {
  Tensor result = input.clone();
  for (std::int64_t& x : result.elements<std::int64_t>()) x *= 2;
  return result;
}

inline std::int64_t sum_of(const Tensor& input) {
  std::int64_t sum = 0;
  for (const std::int64_t x : input.elements<std::int64_t>()) sum += x;
  return sum;
}

/// tf.data.Dataset.from_tensors([[1.]]).repeat()
inline Dataset<Tensor> endless_ones() {
  return Dataset<Tensor>::from_tensor_slices(Tensor::from(std::span<const float>({1.0F}), Shape{1, 1, 1})).repeat();
}

/// Two steps of a dataset that `strategy` distributes from a function which gives it, batched for 4 rows in all; every
/// replica gets its part of the rows, all of them 1.
inline void expect_ones(Strategy& strategy, const DistributedDataset<Tensor>& inputs) {
  const std::int64_t rows = 4 / strategy.num_replicas_in_sync();
  int steps = 0;
  for (const auto& batch : inputs) {
    const auto replica_results = strategy.run(
        [rows](const Tensor& input) {
          EXPECT_EQ(input.shape(), (Shape{rows, 1, 1}));
          float total = 0;
          for (const float x : input.elements<float>()) total += x;
          return total;
        },
        batch);
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, replica_results), 4.0F);
    if (++steps == 2) break;
  }
  EXPECT_EQ(steps, 2);
}

/// All of a dataset of f32 scalars in batches of `rows`, distributed.
inline std::vector<float> all_of(Strategy& strategy, const Dataset<Tensor>& batched) {
  std::vector<float> all;
  for (const auto& batch : strategy.experimental_distribute_dataset(batched)) {
    for (const Tensor& part : strategy.experimental_local_results(batch)) {
      for (const float x : part.elements<float>()) all.push_back(x);
    }
  }
  return all;
}

}  // namespace lockstep::test
