// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Views of dense, row-major elements that another object owns.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep {

/// A view of elements that may be written. Does not own the elements; their memory must outlive every use of the view.
struct TensorView {
  void* data = nullptr;  ///< may be null only if there are no elements
  DType dtype = DType::f32;
  Shape shape;
  Device device;

  [[nodiscard]] std::int64_t element_count() const noexcept { return shape.element_count(); }
  [[nodiscard]] std::size_t byte_count() const noexcept {
    return static_cast<std::size_t>(element_count()) * size_of(dtype);
  }
};

/// A view of elements that are only read.
struct ConstTensorView {
  const void* data = nullptr;  ///< may be null only if there are no elements
  DType dtype = DType::f32;
  Shape shape;
  Device device;

  ConstTensorView() = default;
  ConstTensorView(const void* data_, DType dtype_, Shape shape_, Device device_ = {})
      : data(data_), dtype(dtype_), shape(shape_), device(device_) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a writable view can always be read
  ConstTensorView(const TensorView& view)
      : data(view.data), dtype(view.dtype), shape(view.shape), device(view.device) {}

  [[nodiscard]] std::int64_t element_count() const noexcept { return shape.element_count(); }
  [[nodiscard]] std::size_t byte_count() const noexcept {
    return static_cast<std::size_t>(element_count()) * size_of(dtype);
  }
};

/// A one-dimensional view of `elements`. Local.
template <Element T>
  requires(!std::is_const_v<T>)
[[nodiscard]] TensorView view_of(std::span<T> elements) {
  return {elements.data(), dtype_of<T>, Shape{static_cast<std::int64_t>(elements.size())}, Device{}};
}
template <Element T>
[[nodiscard]] ConstTensorView view_of(std::span<const T> elements) {
  return {elements.data(), dtype_of<T>, Shape{static_cast<std::int64_t>(elements.size())}, Device{}};
}

}  // namespace lockstep
