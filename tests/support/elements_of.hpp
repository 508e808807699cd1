// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/device/tensor.hpp>

#include <vector>

namespace lockstep::test {

template <class T>
std::vector<T> elements_of(const Tensor& tensor) {
  const auto elements = tensor.elements<T>();
  return {elements.begin(), elements.end()};
}

}  // namespace lockstep::test
