// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dense, row-major tensor that owns its memory.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

class Tensor;

namespace detail {

/// A tensor with a copy of `parts`, of which there is at least one, along a new first axis. Throws
/// Error(invalid_argument) if their shapes differ.
[[nodiscard]] LOCKSTEP_API Tensor stacked(const std::vector<Tensor>& parts);
/// Throws Error(invalid_argument): a number in a list in braces is not one of `dtype`.
[[noreturn]] LOCKSTEP_API void throw_number_out_of_range(DType dtype);
/// If `tensor` is in host memory and `device` is a CPU, `tensor` is on `device` afterwards. Copies no elements, because
/// all CPUs of a process share the host memory; other tensors that share the elements keep their device. Otherwise no
/// effect. Local.
LOCKSTEP_API void set_cpu(Tensor& tensor, Device device) noexcept;

}  // namespace detail

/// Shared ownership of elements, which are aligned to 64 bytes. Copying a Tensor copies no elements: the copy refers to
/// the same elements. `clone` copies the elements. A default-constructed Tensor is an f32 tensor of shape [0].
/// Thread-safety: as a shared_ptr; the caller must order concurrent writes to the elements.
///
/// The work of lockstep on a GPU tensor, and the release of the tensor's memory, are ordered on the stream of the
/// device. Therefore a tensor may be destroyed while work on the tensor is still on the stream. The functions throw
/// Error(unavailable) if CUDA fails.
class LOCKSTEP_API Tensor {
 public:
  Tensor();
  /// Creates a tensor of zeros. The memory comes from `resource`, which must allocate memory of `device`. If `resource`
  /// is null, the memory comes from default_memory_resource() for a CPU, and from gpu_memory_resource(device) for a
  /// GPU. Local. Throws std::bad_alloc, and Error(unavailable) if `device` does not exist in this process.
  Tensor(DType dtype, const Shape& shape, std::shared_ptr<MemoryResource> resource = nullptr, Device device = {});

  /// As the constructor, but the elements are unspecified. For callers that write all elements. Local.
  [[nodiscard]] static Tensor uninitialized(DType dtype, const Shape& shape,
                                            std::shared_ptr<MemoryResource> resource = nullptr, Device device = {});

  /// A tensor that shares the elements of `view`, which need only the alignment of their type. `owner` keeps the
  /// elements alive. It is released after the last tensor that shares them has been destroyed: at once or, if work on
  /// the stream of a GPU is then pending, in a later call of this function, of `synchronize` or of an allocation on a
  /// GPU that finds the work complete. If an asynchronous operation still uses the elements after its deadline, a
  /// warning is logged and `owner` is never released. Local.
  [[nodiscard]] static Tensor sharing(const TensorView& view, std::shared_ptr<void> owner);

  /// A tensor with a copy of `elements`. Throws Error(invalid_argument) if their number does not fit `shape`.
  template <Element T>
  [[nodiscard]] static Tensor from(std::span<const T> elements, const Shape& shape) {
    Tensor result = uninitialized(dtype_of<T>, shape);
    result.copy_from(view_of(elements));
    return result;
  }
  template <Element T>
  [[nodiscard]] static Tensor from(const std::vector<T>& elements) {
    return from(std::span<const T>(elements.data(), elements.size()),
                Shape{static_cast<std::int64_t>(elements.size())});
  }
  /// A list in braces: `from({1.0F, 2.0F})` has shape [2], and `from({{1, 2}, {3, 4}})` shape [2, 2] and dtype i32. All
  /// numbers must have the same type. Throws Error(invalid_argument) if the lists of one list have different lengths.
  template <Element T>
  [[nodiscard]] static Tensor from(std::initializer_list<T> elements) {
    return from(std::span<const T>(elements.begin(), elements.size()),
                Shape{static_cast<std::int64_t>(elements.size())});
  }
  template <Element T>
  [[nodiscard]] static Tensor from(std::initializer_list<std::initializer_list<T>> rows) {
    return from_parts(rows);
  }
  template <Element T>
  [[nodiscard]] static Tensor from(std::initializer_list<std::initializer_list<std::initializer_list<T>>> matrices) {
    return from_parts(matrices);
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

  /// The elements as a span of T. Throws Error(invalid_argument) if T is not the element type, and
  /// Error(failed_precondition) if the tensor is on a GPU.
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

  /// The only element as a number: `float(t)`. The elements may have another type than T: every number converts to
  /// floating point, and an integer to an integer type that has its value. The element of a tensor
  /// on a GPU is copied to the host, which waits for the GPU's stream. Local. Throws Error(invalid_argument) if the
  /// number of elements is not 1, or if the element cannot be converted.
  template <Element T>
    requires(!std::same_as<T, bool>)
  [[nodiscard]] explicit operator T() const {
    T number{};
    copy_number_to(dtype_of<T>, &number);
    return number;
  }

  /// A tensor with a copy of the elements, on the same device. Local. Throws as the constructor.
  [[nodiscard]] Tensor clone() const;
  /// A tensor with the same elements on `device`. If this tensor is on `device`, the result shares its memory;
  /// otherwise the elements are copied as by `copy`. Local. Throws as the constructor and `copy`.
  [[nodiscard]] Tensor to(Device device) const;
  /// A tensor of shape `shape` that shares the elements. Throws Error(invalid_argument) if the element counts differ.
  [[nodiscard]] Tensor reshaped(const Shape& shape) const;
  /// Overwrites all elements with the elements of `source`, which may be on any device, as by `copy`. Throws
  /// Error(invalid_argument) if dtypes or element counts differ; then nothing is written.
  void copy_from(ConstTensorView source);

 private:
  friend void detail::set_cpu(Tensor& tensor, Device device) noexcept;
  explicit Tensor(const TensorView& view) noexcept : view_(view) {}
  void require_host_elements(DType dtype) const;
  void copy_number_to(DType dtype, void* number) const;
  template <class Part>
  static Tensor from_parts(std::initializer_list<Part> parts) {
    std::vector<Tensor> tensors;
    for (const Part& part : parts) tensors.push_back(from(part));
    return detail::stacked(tensors);
  }

  TensorView view_;
  std::shared_ptr<void> owner_;  // frees the block, and keeps the block's resource alive until the block is freed
};

template <>
struct tensor_traits<Tensor> {
  static TensorView view(Tensor& value) { return value.view(); }
  static ConstTensorView view(const Tensor& value) { return value.view(); }
};

}  // namespace lockstep
