// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>

#include <memory>

namespace lockstep::input {

/// An f32 tensor of the same shape with the values `float(element) * scale`; with `scale` 1/255, it maps the bytes of
/// an image to [0, 1]. Local. Each element is converted to f32 (rounded to nearest), then multiplied; bool counts as 0
/// and 1. The result is allocated in host memory from `memory`, by default the heap.
/// Cost: one pass, vectorized for u8.
[[nodiscard]] LOCKSTEP_API Tensor scale_to_float(const Tensor& elements, float scale,
                                                 const std::shared_ptr<MemoryResource>& memory = nullptr);

}  // namespace lockstep::input
