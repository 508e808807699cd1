// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of one call on one rank, with values from which every rank knows the result.

#pragma once

#include "calls.hpp"

#include <lockstep/collectives/item.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace faults {

inline constexpr std::size_t gathered_elements = 300;

/// What `rank` contributes to call `k`.
[[nodiscard]] constexpr double value_of(int rank, int k) { return 5 * rank + k % 50 + 1; }
/// The sum of these over `ranks` ranks.
[[nodiscard]] double sum_of(int ranks, int k);

struct WorkShape {
  std::int64_t elements = 1000;
  int tensors = 2;
  lockstep::DType dtype = lockstep::DType::f32;
  bool in_arena = true;

  /// With a change that concerns tensors.
  [[nodiscard]] WorkShape with(Change change) const;
};

/// Tensors that are reduced or sent in place.
class Work {
 public:
  Work(const WorkShape& shape, double value);

  [[nodiscard]] const std::vector<lockstep::Item>& items() const { return items_; }
  [[nodiscard]] std::span<const lockstep::TensorView> views() const { return views_; }
  /// Throws WrongResult unless all elements are `expected`.
  void check(double expected, const char* what) const;

 private:
  std::vector<lockstep::Tensor> tensors_;
  std::vector<lockstep::TensorView> views_;
  std::vector<lockstep::ConstTensorView> inputs_;
  std::vector<lockstep::Item> items_;
};

}  // namespace faults
