// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of strategies.

#pragma once

#include <lockstep/lockstep.hpp>

#include "support/elements_of.hpp"
#include "support/expect_error.hpp"
#include "support/function_ref.hpp"
#include "support/logical_cpus.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::test {

/// A MirroredStrategy of `count` logical devices.
inline MirroredStrategy mirrored(int count) { return MirroredStrategy(logical_cpus(count)); }

inline VariableOptions aggregated_by(VariableAggregation aggregation) {
  return {.name = "v", .aggregation = aggregation};
}

/// `elements` as a tensor of `shape`.
inline Tensor tensor(const std::vector<float>& elements, const Shape& shape) {
  return Tensor::from(elements).reshaped(shape);
}

/// Slices of a tensor of `rows` rows; `values` has an equal number of elements for each of `indices`.
inline IndexedSlices slices(const std::vector<std::int64_t>& indices, const std::vector<float>& values,
                            std::int64_t rows) {
  const auto n = static_cast<std::int64_t>(indices.size());
  const std::int64_t columns = n == 0 ? 1 : static_cast<std::int64_t>(values.size()) / n;
  return {tensor(values, Shape{n, columns}), Tensor::from(indices), rows};
}

/// Runs `body(strategy)` on each rank of a MultiWorkerMirroredStrategy over threads; rank p has counts[p] replicas.
inline void on_workers(const std::vector<int>& counts, FunctionRef<void(Strategy&)> body,
                       CommunicatorOptions base = {}) {
  on_ranks(
      counts,
      [&](Communicator& communicator) {
        MultiWorkerMirroredStrategy strategy(communicator);
        body(strategy);
      },
      base);
}

/// The components of `value`, in order.
template <class T>
std::vector<T> components(const PerReplica<T>& value) {
  std::vector<T> result;
  for (int i = 0; i < value.size(); ++i) result.push_back(value.component(i));
  return result;
}

/// The elements of each copy of `variable`.
template <class T>
std::vector<std::vector<T>> copies(const TypedVariable<T>& variable) {
  std::vector<std::vector<T>> result;
  for (int i = 0; i < variable.component_count(); ++i) {
    const Tensor copy = variable.component(i);
    const auto elements = copy.elements<T>();
    result.emplace_back(elements.begin(), elements.end());
  }
  return result;
}

}  // namespace lockstep::test
