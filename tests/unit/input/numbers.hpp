// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets of numbers, and the numbers that each replica gets.

#pragma once

#include <lockstep/input/distributed_dataset.hpp>

#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <vector>

namespace lockstep {

using Numbers = std::vector<std::int64_t>;
using Steps = std::vector<std::vector<Numbers>>;  // steps, replicas, rows

inline Numbers numbers(const Tensor& tensor) {
  const auto elements = tensor.elements<std::int64_t>();
  return {elements.begin(), elements.end()};
}

/// The numbers of all elements, in order.
inline Numbers flat(const Dataset<Tensor>& dataset) {
  Numbers result;
  for (const Tensor& element : dataset) {
    for (const std::int64_t number : numbers(element)) result.push_back(number);
  }
  return result;
}

/// The numbers of Dataset::range(count), without random access and with unknown length.
inline Dataset<Tensor> stream(std::int64_t count) {
  return Dataset<Tensor>::from_generator([count] {
    return [count, i = std::int64_t{0}]() mutable {
      return i == count ? std::nullopt : std::optional(Tensor::scalar(i++));
    };
  });
}

/// The batches of all replicas in the first `most` steps of `distribute(communicator)`. Checks that every rank has the
/// same number of steps.
template <class Distribute>
Steps steps_on_ranks(const std::vector<int>& layout, const Distribute& distribute,
                     std::size_t most = std::numeric_limits<std::size_t>::max()) {
  std::mutex mutex;
  Steps steps;
  std::vector<std::size_t> counts(layout.size());
  test::on_ranks(layout, [&](Communicator& communicator) {
    std::size_t step = 0;
    for (const auto& batch : distribute(communicator)) {
      const std::lock_guard lock(mutex);
      if (steps.size() == step) steps.emplace_back(static_cast<std::size_t>(communicator.layout().replicas()));
      for (int i = 0; i < batch.size(); ++i)
        steps[step][static_cast<std::size_t>(batch.first_replica() + i)] = numbers(batch.component(i));
      if (++step == most) break;
    }
    counts[static_cast<std::size_t>(communicator.rank())] = step;
  });
  for (const std::size_t count : counts) EXPECT_EQ(count, steps.size());
  return steps;
}

/// The same for one dataset that all ranks distribute.
inline Steps steps_of(const std::vector<int>& layout, const Dataset<Tensor>& dataset, const InputOptions& options) {
  return steps_on_ranks(layout, [&](Communicator& communicator) {
    return input::distribute(dataset, {communicator.layout(), communicator.rank(), communicator}, options);
  });
}

}  // namespace lockstep
