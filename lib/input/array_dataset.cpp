// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/array_dataset.hpp>

#include "base/check.hpp"

#include <lockstep/device/tensor.hpp>

#include <cstddef>

namespace lockstep::input {

Tensor stacked(const std::vector<Tensor>& parts) {
  if (parts.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "array_dataset: a list of arrays is empty, so its dtype and shape are unknown; use an array "
                        "without rows instead");
  }
  const Tensor& first = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    if (part.dtype() != first.dtype() || part.shape() != first.shape()) {
      detail::throw_error(Code::invalid_argument,
                          "array_dataset: array {} of a list is {}{}, but array 0 is {}{}; arrays of a list must have "
                          "equal dtype and shape, use a tuple for others",
                          i, to_string(part.dtype()), to_string(part.shape()), to_string(first.dtype()),
                          to_string(first.shape()));
    }
  }
  return detail::stacked(parts);
}

}  // namespace lockstep::input
