// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The values of each replica in a list of tensors, and what collectives make of them. All ranks of a process compare
// with the same results, at every root: those that were computed once are kept.

#pragma once

#include "support/canonical_sum.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::test {

/// Dtype and shape of one tensor of a list.
struct TensorCase {
  DType dtype = DType::f32;
  std::int64_t count = 0;
};

/// Values of `replica` in tensor `index`.
[[nodiscard]] Bytes leaf(const TensorCase& tensor, std::size_t index, int replica);

[[nodiscard]] std::vector<Bytes> all_leaves(const TensorCase& tensor, std::size_t index, int replicas);

/// The canonical reduction of `all_leaves`. Thread-safety: any thread.
[[nodiscard]] Bytes reduced(ReduceOp op, const TensorCase& tensor, std::size_t index, int replicas);

/// `all_leaves` one after the other. Thread-safety: any thread.
[[nodiscard]] Bytes concatenated(const TensorCase& tensor, std::size_t index, int replicas);

}  // namespace lockstep::test
