// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/values/print.hpp>

#include "device/host/host_elements.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace lockstep {
namespace detail {
namespace {

template <class T>
T element(const ConstTensorView& view, std::int64_t index) {
  return static_cast<const T*>(view.data)[index];
}

void append_element(std::string& text, const ConstTensorView& view, std::int64_t i) {
  const auto out = std::back_inserter(text);
  switch (view.dtype) {
    case DType::f16: fmt::format_to(out, "{}", float(element<Float16>(view, i))); break;
    case DType::bf16: fmt::format_to(out, "{}", float(element<BFloat16>(view, i))); break;
    case DType::f32: fmt::format_to(out, "{}", element<float>(view, i)); break;
    case DType::f64: fmt::format_to(out, "{}", element<double>(view, i)); break;
    case DType::i8: fmt::format_to(out, "{}", static_cast<int>(element<std::int8_t>(view, i))); break;
    case DType::i16: fmt::format_to(out, "{}", element<std::int16_t>(view, i)); break;
    case DType::i32: fmt::format_to(out, "{}", element<std::int32_t>(view, i)); break;
    case DType::i64: fmt::format_to(out, "{}", element<std::int64_t>(view, i)); break;
    case DType::u8: fmt::format_to(out, "{}", static_cast<int>(element<std::uint8_t>(view, i))); break;
    case DType::u16: fmt::format_to(out, "{}", element<std::uint16_t>(view, i)); break;
    case DType::u32: fmt::format_to(out, "{}", element<std::uint32_t>(view, i)); break;
    case DType::u64: fmt::format_to(out, "{}", element<std::uint64_t>(view, i)); break;
    case DType::boolean: fmt::format_to(out, "{}", element<bool>(view, i)); break;
  }
}

void append_axis(std::string& text, const ConstTensorView& view, int axis, std::int64_t& next) {
  if (axis == view.shape.rank()) {
    append_element(text, view, next++);
    return;
  }
  text += '[';
  for (std::int64_t i = 0; i < view.shape[axis]; ++i) {
    if (i != 0) text += ", ";
    append_axis(text, view, axis + 1, next);
  }
  text += ']';
}

}  // namespace

std::string elements_text(ConstTensorView view) {
  const HostElements elements(view);
  std::string text;
  std::int64_t next = 0;
  append_axis(text, elements.view(), 0, next);
  return text;
}

}  // namespace detail

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << detail::elements_text(tensor.view());
}

}  // namespace lockstep
