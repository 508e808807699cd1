// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>

#include <memory>

namespace lockstep::input {

/// A f32 tensor of the same shape with `float(element) * scale`: bytes of an image to [0, 1] with `scale` 1/255. Local.
/// Each element is converted to f32 (rounded to nearest), then multiplied. bool counts as 0 and 1; f16 and bf16 are
/// widened. The result's memory, the host's, comes from `memory`, by default the heap. Cost: one pass, vectorised for
/// u8.
[[nodiscard]] LOCKSTEP_API Tensor scale_to_float(const Tensor& elements, float scale,
                                                 const std::shared_ptr<MemoryResource>& memory = nullptr);

}  // namespace lockstep::input
