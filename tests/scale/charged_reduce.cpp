// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// kernels/reduce for simulated ranks: sums of f32, correct but slow, and charged to simulated time as bytes that one
// core loads and stores.

#include "kernels/reduce.hpp"

#include "base/check.hpp"
#include "scale/simulated_time.hpp"

#include <cstddef>
#include <vector>

namespace lockstep::detail {

void reduce(const Fold& fold, std::int64_t count) {
  LOCKSTEP_CHECK(fold.dtype == DType::f32 && fold.op == ReduceOp::sum);
  charge_memory((fold.inputs.size() + fold.outputs.size()) * sizeof(float) * static_cast<std::size_t>(count));
  std::vector<float> stack;
  for (std::int64_t e = 0; e < count; ++e) {
    stack.clear();
    for (std::size_t i = 0; i < fold.inputs.size(); ++i) {
      stack.push_back(static_cast<const float*>(fold.inputs[i].data)[e]);
      for (int m = fold.merges[i]; m > 0; --m) {
        const float right = stack.back();
        stack.pop_back();
        stack.back() += right;
      }
    }
    for (void* const output : fold.outputs) static_cast<float*>(output)[e] = stack.front();
  }
}

}  // namespace lockstep::detail
