// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Exchange of tensors with other libraries without a copy. Optional: the only public header that includes dlpack.h.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace detail::dlpack {

inline constexpr std::uint8_t bool_code = 6;  // kDLBool, which DLPack defines since version 0.8

[[noreturn]] inline void refuse(const std::string& why) { throw Error(Code::invalid_argument, "from_dlpack: " + why); }

inline DLDataType type_of(DType dtype) {
  const auto of_kind = [dtype](int kind) {
    return DLDataType{static_cast<std::uint8_t>(kind), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
  };
  if (dtype == DType::boolean) return of_kind(bool_code);
  if (dtype == DType::bf16) return of_kind(kDLBfloat);
  if (is_floating_point(dtype)) return of_kind(kDLFloat);
  return of_kind(dtype < DType::u8 ? kDLInt : kDLUInt);
}

inline DType dtype_of(DLDataType type) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    const DLDataType known = type_of(dtype);
    if (known.code == type.code && known.bits == type.bits && known.lanes == type.lanes) return dtype;
  }
  refuse("the elements are of type code " + std::to_string(type.code) + " with " + std::to_string(type.bits) +
         " bits and " + std::to_string(type.lanes) + " lanes, which is not supported");
}

inline Device device_of(DLDevice device) {
  if (device.device_type == kDLCUDA) return {DeviceKind::gpu, device.device_id};
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost) return {};
  refuse("the elements are on a device of type " + std::to_string(static_cast<int>(device.device_type)) +
         "; it must be kDLCPU, kDLCUDA or kDLCUDAHost");
}

/// Whether the elements are in row-major order without gaps. The stride of an axis with extent 1 does not matter.
inline bool is_dense(const DLTensor& tensor, const Shape& shape) {
  if (tensor.strides == nullptr || shape.element_count() == 0) return true;
  std::int64_t dense = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] != 1 && tensor.strides[axis] != dense) return false;
    dense *= shape[axis];
  }
  return true;
}

inline TensorView view_of(const DLTensor& tensor) {
  if (tensor.ndim < 0) refuse("the number of axes is " + std::to_string(tensor.ndim));
  const Shape shape(std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
  if (!is_dense(tensor, shape)) {
    std::string strides;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      strides += (axis == 0 ? "" : ", ") + std::to_string(tensor.strides[axis]);
    }
    refuse("the strides [" + strides + "] of shape " + to_string(shape) +
           " are not dense and row-major; make it contiguous first");
  }
  return {static_cast<std::byte*>(tensor.data) + tensor.byte_offset, dtype_of(tensor.dtype), shape,
          device_of(tensor.device)};
}

/// An exported tensor, and the shape and strides to which its DLTensor points.
struct Capsule {
  explicit Capsule(Tensor held) : tensor(std::move(held)) {
    std::int64_t step = 1;
    const Shape& dense = tensor.shape();
    shape.resize(static_cast<std::size_t>(dense.rank()));
    strides.resize(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      shape[axis] = dense[static_cast<int>(axis)];
      strides[axis] = step;
      step *= shape[axis];
    }
    const bool on_gpu = tensor.device().kind == DeviceKind::gpu;
    managed.dl_tensor = {tensor.data(),
                         DLDevice{on_gpu ? kDLCUDA : kDLCPU, on_gpu ? tensor.device().index : 0},
                         dense.rank(),
                         type_of(tensor.dtype()),
                         shape.data(),
                         strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { delete static_cast<Capsule*>(self->manager_ctx); };
  }

  Tensor tensor;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  DLManagedTensor managed{};
};

}  // namespace detail::dlpack

/// Exports `tensor` to another library, which shares the elements. The other library calls the deleter when it no
/// longer needs the elements. If the tensor is on a GPU, the other library must wait for the stream of the tensor's
/// device (see interop/cuda.hpp). gpu:1#2 is exported as device 1. Local. Thread-safe. The caller owns the result.
[[nodiscard]] inline DLManagedTensor* to_dlpack(Tensor tensor) {
  return &std::make_unique<detail::dlpack::Capsule>(std::move(tensor)).release()->managed;
}

/// Imports a tensor of another library and shares its elements. The deleter of `managed` is called when the last Tensor
/// that shares the elements is destroyed, or if this function throws. If the elements are on a GPU, the result is on
/// the first logical device of the GPU (gpu:1), and the caller must make the stream of this device wait for the other
/// library's work (see `wait_for` in interop/cuda.hpp). Local. Thread-safe. Throws Error(invalid_argument) if `managed`
/// is null, if strides are not dense and row-major, or if the element type or the device is not supported.
[[nodiscard]] inline Tensor from_dlpack(DLManagedTensor* managed) {
  if (managed == nullptr) detail::dlpack::refuse("the pointer is null");
  std::shared_ptr<void> owner(managed, [](void* held) {
    auto* const shared = static_cast<DLManagedTensor*>(held);
    if (shared->deleter != nullptr) shared->deleter(shared);
  });
  return Tensor::sharing(detail::dlpack::view_of(managed->dl_tensor), std::move(owner));
}

}  // namespace lockstep
