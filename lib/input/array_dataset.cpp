// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/array_dataset.hpp>

#include "base/check.hpp"
#include "input/rows.hpp"

#include <lockstep/device/gpu.hpp>

#include <cstddef>

namespace lockstep::input {

Tensor stacked(std::span<const Tensor> parts) {
  if (parts.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "array_dataset: a list of arrays is empty, so their dtype and shape are unknown; give an array "
                        "without rows instead");
  }
  const Tensor& first = parts.front();
  Tensor result =
      Tensor::uninitialized(first.dtype(), with_rows(static_cast<std::int64_t>(parts.size()), first.shape()));
  auto* to = static_cast<std::byte*>(result.data());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    if (part.dtype() != first.dtype() || !(part.shape() == first.shape())) {
      detail::throw_error(
          Code::invalid_argument,
          "array_dataset: in a list of arrays, which is stacked to one, array {} is {}{} but array 0 is "
          "{}{}; give arrays that differ as a tuple",
          i, to_string(part.dtype()), to_string(part.shape()), to_string(first.dtype()), to_string(first.shape()));
    }
    copy({to + i * part.byte_count(), part.dtype(), part.shape(), {}}, part.view());
  }
  return result;
}

}  // namespace lockstep::input
