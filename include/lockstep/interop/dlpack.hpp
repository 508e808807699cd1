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
#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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

#ifdef DLPACK_MAJOR_VERSION
using Versioned = DLManagedTensorVersioned;
inline constexpr std::uint64_t read_only_flag = DLPACK_FLAG_BITMASK_READ_ONLY;
#else
/// DLManagedTensorVersioned, which DLPack defines since version 1.0.
struct Versioned {
  struct {
    std::uint32_t major;
    std::uint32_t minor;
  } version;
  void* manager_ctx;
  void (*deleter)(Versioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
inline constexpr std::uint64_t read_only_flag = 1;
#endif
inline constexpr std::uint32_t major_version = 1;  // of which the layout of Versioned is

/// An exported tensor, and the shape and strides to which its DLTensor points. Managed: DLManagedTensor or Versioned.
template <class Managed>
struct Capsule {
  Capsule(Tensor held, void* other_stream) : tensor(std::move(held)), stream(other_stream) {
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
    managed.deleter = [](Managed* self) { delete static_cast<Capsule*>(self->manager_ctx); };
    if (stream != nullptr) stream_waits_for(stream, tensor.device());
  }
  Capsule(const Capsule&) = delete;
  Capsule& operator=(const Capsule&) = delete;
  ~Capsule() {
    try {
      if (stream != nullptr) device_waits_for(tensor.device(), stream);
    } catch (const Error&) {  // the device has failed, so nothing reads the elements
    }
  }

  Tensor tensor;
  void* stream;  ///< of the other library; null if the caller orders the streams
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  Managed managed{};
};

/// Throws Error(invalid_argument) if a stream is given for elements in host memory.
inline void require_gpu_of(const void* stream, Device device, std::string_view call) {
  if (stream == nullptr || device.kind == DeviceKind::gpu) return;
  throw Error(Code::invalid_argument, std::string(call) + ": a stream is given, but the elements are on " +
                                          to_string(device) + ", not on a GPU");
}

template <class Managed>
[[nodiscard]] Managed* exported(Tensor tensor, void* stream) {
  require_gpu_of(stream, tensor.device(), "to_dlpack");
  return &std::make_unique<Capsule<Managed>>(std::move(tensor), stream).release()->managed;
}

template <class Managed>
[[nodiscard]] Tensor imported(Managed* managed, void* stream) {
  if (managed == nullptr) refuse("the pointer is null");
  std::shared_ptr<void> owner(managed, [](void* held) {
    auto* const shared = static_cast<Managed*>(held);
    if (shared->deleter != nullptr) shared->deleter(shared);
  });
  if constexpr (std::is_same_v<Managed, Versioned>) {
    if (managed->version.major != major_version) {
      refuse("the version is " + std::to_string(managed->version.major) + "." + std::to_string(managed->version.minor) +
             "; the major version must be " + std::to_string(major_version));
    }
    if ((managed->flags & read_only_flag) != 0)
      refuse("the elements are read-only, but those of a Tensor can be written");
  }
  const TensorView view = view_of(managed->dl_tensor);
  require_gpu_of(stream, view.device, "from_dlpack");
  if (stream != nullptr) device_waits_for(view.device, stream);
  return Tensor::sharing(view, std::move(owner));
}

}  // namespace detail::dlpack

/// Exports `tensor` to another library, which shares the elements. The other library calls the deleter when it no
/// longer needs the elements. gpu:1#2 is exported as device 1. Local. Thread-safe. The caller owns the result.
///
/// `stream`: for a tensor on a GPU, the cudaStream_t on which the other library uses the elements, as in the Python
/// protocol (cudaStreamLegacy for the default stream). Later work on it waits for the work that is now on the stream of
/// the tensor's device, and memory that is freed after the call of the deleter is reused only after the work that is
/// then on `stream`, which must exist until then. If it is null, the caller orders the streams (see interop/cuda.hpp).
/// Throws Error(invalid_argument) if a stream is given for elements in host memory, and Error(failed_precondition) if
/// the stream is being captured.
[[nodiscard]] inline DLManagedTensor* to_dlpack(Tensor tensor, void* stream = nullptr) {
  return detail::dlpack::exported<DLManagedTensor>(std::move(tensor), stream);
}
/// As to_dlpack, but in the form of DLPack 1.x ("dltensor_versioned"). With a header of DLPack 1.x, the result is a
/// DLManagedTensorVersioned.
[[nodiscard]] inline detail::dlpack::Versioned* to_dlpack_versioned(Tensor tensor, void* stream = nullptr) {
  auto* const result = detail::dlpack::exported<detail::dlpack::Versioned>(std::move(tensor), stream);
  result->version.major = detail::dlpack::major_version;
  return result;
}

/// Imports a tensor of another library and shares its elements. The deleter of `managed` is called if this function
/// throws; otherwise after the last Tensor that shares the elements has been destroyed and the work of lockstep on them
/// is complete (see Tensor::sharing). If the elements are on a GPU, the result is on the first logical device of the
/// GPU (gpu:1). Local. Thread-safe. Throws Error(invalid_argument) if `managed` is null, if strides are not dense and
/// row-major, if the element type or the device is not supported, and for a DLManagedTensorVersioned of another major
/// version than 1 or with the flag for read-only elements.
///
/// `stream`: for elements on a GPU, the cudaStream_t on which the other library has written them: later work of
/// lockstep waits for the work that is now on it. If it is null, the caller orders the streams (see interop/cuda.hpp).
/// Throws Error(invalid_argument) if a stream is given for elements in host memory, and Error(failed_precondition) if
/// the stream is being captured.
[[nodiscard]] inline Tensor from_dlpack(DLManagedTensor* managed, void* stream = nullptr) {
  return detail::dlpack::imported(managed, stream);
}
[[nodiscard]] inline Tensor from_dlpack(detail::dlpack::Versioned* managed, void* stream = nullptr) {
  return detail::dlpack::imported(managed, stream);
}
[[nodiscard]] inline Tensor from_dlpack(std::nullptr_t) { detail::dlpack::refuse("the pointer is null"); }

}  // namespace lockstep
