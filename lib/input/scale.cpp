// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/scale.hpp>

#include "device/host/host_elements.hpp"

#include <cstddef>
#include <cstdint>

namespace lockstep::input {
namespace {

template <class T>
float as_float(T value) noexcept {
  return static_cast<float>(value);
}
float as_float(bool value) noexcept { return value ? 1.0F : 0.0F; }

/// Works in blocks of a fixed size, because compilers vectorize loops of a fixed length at -O2.
template <class T>
void scale(const void* elements, std::size_t count, float factor, float* __restrict result) noexcept {
  constexpr std::size_t block = 16;
  const T* __restrict const source = static_cast<const T*>(elements);
  std::size_t i = 0;
  for (; i + block <= count; i += block) {
    for (std::size_t j = 0; j < block; ++j) result[i + j] = as_float(source[i + j]) * factor;
  }
  for (; i < count; ++i) result[i] = as_float(source[i]) * factor;
}

}  // namespace

Tensor scale_to_float(const Tensor& elements, float factor, const std::shared_ptr<MemoryResource>& memory) {
  Tensor scaled = Tensor::uninitialized(DType::f32, elements.shape(), memory);
  const auto count = static_cast<std::size_t>(elements.element_count());
  const detail::HostElements here(elements.view());
  const void* const source = here.view().data;
  float* const target = static_cast<float*>(scaled.data());
  switch (elements.dtype()) {
    case DType::f16: scale<Float16>(source, count, factor, target); break;
    case DType::bf16: scale<BFloat16>(source, count, factor, target); break;
    case DType::f32: scale<float>(source, count, factor, target); break;
    case DType::f64: scale<double>(source, count, factor, target); break;
    case DType::i8: scale<std::int8_t>(source, count, factor, target); break;
    case DType::i16: scale<std::int16_t>(source, count, factor, target); break;
    case DType::i32: scale<std::int32_t>(source, count, factor, target); break;
    case DType::i64: scale<std::int64_t>(source, count, factor, target); break;
    case DType::u8: scale<std::uint8_t>(source, count, factor, target); break;
    case DType::u16: scale<std::uint16_t>(source, count, factor, target); break;
    case DType::u32: scale<std::uint32_t>(source, count, factor, target); break;
    case DType::u64: scale<std::uint64_t>(source, count, factor, target); break;
    case DType::boolean: scale<bool>(source, count, factor, target); break;
  }
  return scaled;
}

}  // namespace lockstep::input
