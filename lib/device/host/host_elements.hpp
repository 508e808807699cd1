// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements for code that runs on the host, wherever the tensor lies: in host memory the tensor itself, on a GPU a copy,
// which costs the transfer there, and back where it is written.

#pragma once

#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace lockstep::detail {

[[nodiscard]] inline bool is_on_host(Device device) noexcept { return device.kind == DeviceKind::cpu; }

/// `tensor` itself where it is in host memory, else a copy there.
[[nodiscard]] Tensor host_tensor(const Tensor& tensor);

/// To be read. Sees what was on the device's stream before. Throws what copy() and allocating throw.
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

/// To be read and written; what was written is in the tensor after `finish`.
class HostEdit {
 public:
  explicit HostEdit(TensorView target);

  [[nodiscard]] const TensorView& view() const noexcept { return view_; }
  /// Once, at the end; without it the tensor of a GPU stays what it was.
  void finish();

 private:
  TensorView target_;
  std::optional<Tensor> copy_;
  TensorView view_;
};

}  // namespace lockstep::detail
