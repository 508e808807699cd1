// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dense, row-major tensor that owns its memory.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <span>
#include <vector>

namespace lockstep {

/// Shared ownership of a block of elements, aligned to 64 bytes: copying a Tensor copies no element, both then refer to
/// the same ones; `clone` copies. A default-constructed Tensor is a f32 tensor of shape [0]. Thread-safety: as a
/// shared_ptr; concurrent writes to the elements are the caller's business.
///
/// What is done with a tensor on a GPU is in order with the stream of its device, as its end is: it may be destroyed
/// while work with it is on the way there. Its functions throw Error(unavailable) when CUDA fails.
class LOCKSTEP_API Tensor {
 public:
  Tensor();
  /// Elements are zero. Memory comes from `resource`, which gives memory of `device`; null is the default resource on a
  /// CPU, and the device's own on a GPU. Local. Throws std::bad_alloc, and Error(unavailable) where `device` is not
  /// here.
  Tensor(DType dtype, const Shape& shape, std::shared_ptr<MemoryResource> resource = nullptr, Device device = {});

  /// The same with unspecified elements, for who writes them all. Local. Throws as that.
  [[nodiscard]] static Tensor uninitialized(DType dtype, const Shape& shape,
                                            std::shared_ptr<MemoryResource> resource = nullptr, Device device = {});

  /// A tensor over the elements of `view`, which need not be aligned to more than an element; `owner` keeps them alive
  /// and is let go with the last tensor that shares them. Local.
  [[nodiscard]] static Tensor sharing(const TensorView& view, std::shared_ptr<void> owner);

  /// A tensor with a copy of `elements`. Throws Error(invalid_argument) when their number is not that of `shape`.
  template <Element T>
  [[nodiscard]] static Tensor from(std::span<const T> elements, const Shape& shape) {
    Tensor result = uninitialized(dtype_of<T>, shape);
    result.copy_from(view_of(elements));
    return result;
  }
  template <Element T>
  [[nodiscard]] static Tensor from(const std::vector<T>& elements) {
    return from(std::span<const T>(elements), Shape{static_cast<std::int64_t>(elements.size())});
  }
  template <Element T>
  [[nodiscard]] static Tensor scalar(T value) {
    return from(std::span<const T>(&value, 1), Shape{});
  }

  [[nodiscard]] DType dtype() const noexcept { return view_.dtype; }
  [[nodiscard]] const Shape& shape() const noexcept { return view_.shape; }
  [[nodiscard]] Device device() const noexcept { return view_.device; }
  [[nodiscard]] std::int64_t element_count() const noexcept { return view_.element_count(); }
  [[nodiscard]] std::size_t byte_count() const noexcept { return view_.byte_count(); }
  [[nodiscard]] void* data() noexcept { return view_.data; }
  [[nodiscard]] const void* data() const noexcept { return view_.data; }

  [[nodiscard]] TensorView view() noexcept { return view_; }
  [[nodiscard]] ConstTensorView view() const noexcept { return view_; }

  /// The elements as T. Throws Error(invalid_argument) when T is not the element type, and Error(failed_precondition)
  /// when they are on a GPU.
  template <Element T>
  [[nodiscard]] std::span<T> elements() {
    require_host_elements(dtype_of<T>);
    return {static_cast<T*>(view_.data), static_cast<std::size_t>(element_count())};
  }
  template <Element T>
  [[nodiscard]] std::span<const T> elements() const {
    require_host_elements(dtype_of<T>);
    return {static_cast<const T*>(view_.data), static_cast<std::size_t>(element_count())};
  }

  /// A tensor with the same elements in memory of its own, on the same device. Local. Throws as the constructor.
  [[nodiscard]] Tensor clone() const;
  /// The same elements on `device`: shares memory where they are there, else copies, as `copy`. Local. Throws as the
  /// constructor and `copy`.
  [[nodiscard]] Tensor to(Device device) const;
  /// The same elements under another shape; shares memory. Throws Error(invalid_argument) when the counts differ.
  [[nodiscard]] Tensor reshaped(const Shape& shape) const;
  /// Overwrites all elements, from any device, as `copy`. Throws Error(invalid_argument) when dtype or element count
  /// differ; nothing is written then.
  void copy_from(ConstTensorView source);

 private:
  explicit Tensor(const TensorView& view) noexcept : view_(view) {}
  void require_dtype(DType dtype) const;
  void require_host_elements(DType dtype) const;

  TensorView view_;
  std::shared_ptr<void> owner_;  // frees the block, and holds the resource until then
};

template <>
struct tensor_traits<Tensor> {
  static TensorView view(Tensor& value) { return value.view(); }
  static ConstTensorView view(const Tensor& value) { return value.view(); }
};

}  // namespace lockstep
