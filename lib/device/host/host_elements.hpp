// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Access to the elements of tensors on any device, for code that runs on the host. A tensor in host memory is accessed
// in place. A tensor on a GPU is copied to the host and, if it was written, copied back.

#pragma once

#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace lockstep::detail {

[[nodiscard]] inline bool is_on_host(Device device) noexcept { return device.kind == DeviceKind::cpu; }

/// Returns `tensor` if it is in host memory, and otherwise a copy in host memory.
[[nodiscard]] Tensor host_tensor(const Tensor& tensor);

/// Read access. Sees the results of earlier work on the device's stream. Throws errors of copy() and of the allocation.
class HostElements {
 public:
  explicit HostElements(ConstTensorView source);

  [[nodiscard]] const ConstTensorView& view() const noexcept { return view_; }
  template <Element T>
  [[nodiscard]] std::span<const T> elements() const noexcept {
    return {static_cast<const T*>(view_.data), static_cast<std::size_t>(view_.element_count())};
  }

 private:
  std::optional<Tensor> copy_;
  ConstTensorView view_;
};

/// Read and write access; `finish` stores the written elements in the tensor.
class HostEdit {
 public:
  explicit HostEdit(TensorView target);

  [[nodiscard]] const TensorView& view() const noexcept { return view_; }
  /// Must be called once, at the end. Without this call, a tensor on a GPU is not changed.
  void finish();

 private:
  TensorView target_;
  std::optional<Tensor> copy_;
  TensorView view_;
};

}  // namespace lockstep::detail
