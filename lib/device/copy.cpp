// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/device/gpu.hpp>

#include "base/check.hpp"
#include "device/cuda/copies.hpp"

#include <cstring>

namespace lockstep {

void copy(TensorView target, ConstTensorView source) {
  if (target.dtype != source.dtype) {
    detail::throw_error(Code::invalid_argument, "copy: source has dtype {} but target has dtype {}; they must be equal",
                        to_string(source.dtype), to_string(target.dtype));
  }
  if (target.element_count() != source.element_count()) {
    detail::throw_error(Code::invalid_argument,
                        "copy: source of shape {} has {} elements but target of shape {} has {}; they must be equal",
                        to_string(source.shape), source.element_count(), to_string(target.shape),
                        target.element_count());
  }
  const std::size_t bytes = source.byte_count();
  if (bytes == 0) return;
  if (target.device.kind == DeviceKind::cpu && source.device.kind == DeviceKind::cpu) {
    std::memmove(target.data, source.data, bytes);
  } else {
    detail::cuda::copy_bytes(target.data, target.device, source.data, source.device, bytes);
  }
}

}  // namespace lockstep
