// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>

#include <memory>

namespace lockstep::input {

/// Returns an f32 tensor of the shape of `elements` with the values `float(element) * scale`. A `scale` of 1/255 maps
/// the bytes of an image to [0, 1]. Local. Each element is converted to f32 (rounded to nearest; false is 0, true is 1)
/// and then multiplied. The result is in host memory, allocated from `memory` or, if `memory` is null, from the heap.
/// Cost: one pass, vectorized for u8.
[[nodiscard]] LOCKSTEP_API Tensor scale_to_float(const Tensor& elements, float scale,
                                                 const std::shared_ptr<MemoryResource>& memory = nullptr);

}  // namespace lockstep::input
