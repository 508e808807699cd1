// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "model/nests.hpp"

#include <algorithm>

namespace lockstep::test {
namespace {

std::string hex(const std::byte* bytes, std::size_t count) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = count; i-- > 0;) {  // the most significant byte first
    text += digits[std::to_integer<std::size_t>(bytes[i] >> 4)];
    text += digits[std::to_integer<std::size_t>(bytes[i] & std::byte{15})];
  }
  return text;
}

/// A dtype other than `dtype`, which a changed leaf has.
DType other_dtype(DType dtype) {
  return dtype == DType::f32       ? DType::f64
         : dtype == DType::f64     ? DType::f32
         : dtype == DType::i32     ? DType::i64
         : dtype == DType::boolean ? DType::u8
         : dtype < DType::f32      ? DType::f32
                                   : DType::i32;
}

}  // namespace

std::string text_of_number(DType dtype, const std::byte* bytes) {
  return std::string(lockstep::to_string(dtype)) + ":" + hex(bytes, size_of(dtype));
}

std::string text_of_elements(Form form, DType dtype, const Extents& shape, const std::byte* bytes) {
  if (form == Form::number) return text_of_number(dtype, bytes);
  std::string text;
  if (form == Form::tensor) {
    text = "Tensor ";
    for (const std::int64_t extent : shape) text += std::to_string(extent) + " ";
    text += lockstep::to_string(dtype);
  }
  text += "[";
  for (std::int64_t i = 0; i < count_of(shape); ++i)
    text += text_of_number(dtype, bytes + static_cast<std::size_t>(i) * size_of(dtype)) + ",";
  return text + "]";
}

Tensor tensor_of(const Elements& value) {
  Tensor tensor(value.dtype, Shape(std::span<const std::int64_t>(value.shape)));
  if (!value.bytes.empty()) std::memcpy(tensor.data(), value.bytes.data(), value.bytes.size());
  return tensor;
}

std::string text_of_value(const Elements& value) {
  return text_of_elements(Form::tensor, value.dtype, value.shape, value.bytes.data());
}

std::string filled(const std::string& skeleton, const Leaves& leaves) {
  std::string text;
  std::size_t k = 0;
  for (const char c : skeleton) {
    if (c != '\1') {
      text += c;
    } else {
      const LeafValue& leaf = leaves.at(k++);
      text += text_of_elements(leaf.form, leaf.elements.dtype, leaf.elements.shape, leaf.elements.bytes.data());
    }
  }
  return text;
}

Source::Source(const Call& call, Range range, bool in_step, const Layout& layout)
    : call_(call),
      range_(range),
      in_step_(in_step),
      layout_(layout),
      structure_(call.structure),
      leaves_(static_cast<std::size_t>(range.count)) {}

const std::vector<Elements>& Source::next_tensor(Share share) {
  const DType dtype = structure_.pick(call_.pool);
  const int any_rank = structure_.roll(4);
  Extents shape;
  for (int i = 0; i < (call_.rank < 0 ? any_rank : call_.rank); ++i)
    shape.push_back(structure_.one_in(8) ? 0 : 1 + structure_.roll(3));
  return next_leaf(share, Form::tensor, dtype, shape, false);
}

const std::vector<Elements>& Source::next_list(Share share, DType dtype, int size) {
  if (size >= 0) return next_leaf(share, Form::list, dtype, {size});
  return next_leaf(share, Form::list, dtype, {structure_.roll(5)}, false);
}

const std::vector<Elements>& Source::next_leaf(Share share, Form form, DType dtype, Extents shape,
                                               bool has_fixed_shape) {
  skeleton_ += '\1';
  const std::size_t index = leaves_.front().size();
  const int rank = static_cast<int>(shape.size());
  if (static_cast<int>(index) == call_.changed_leaf) {
    if (call_.changed_axis >= 0) {
      ++shape.at(static_cast<std::size_t>(call_.changed_axis));
    } else {
      dtype = other_dtype(dtype);
    }
  }
  values_.clear();
  for (int i = 0; i < range_.count; ++i) {
    const int replica = range_.first + i;
    Elements value{dtype, shape, {}};
    Dice dice(call_.values * 1000003 + index * 101 + static_cast<std::size_t>(replica));
    const int extent = dice.roll(4);
    if (call_.varying && !has_fixed_shape && share == Share::per_replica) {
      const int axis = *call_.varying < 0 ? *call_.varying + rank : *call_.varying;
      if (axis >= 0 && axis < rank) value.shape[static_cast<std::size_t>(axis)] = extent;
    }
    const bool shared = share == Share::mirrored || (share == Share::plain && !layout_.once_per_rank());
    const std::uint64_t owner = shared ? 0 : static_cast<std::uint64_t>(replica) + 1;
    value.bytes = awkward_values(dtype, count_of(value.shape), call_.values * 7919 + index * 64 + owner);
    leaves_[static_cast<std::size_t>(i)].push_back({form, share, value});
    values_.push_back(std::move(value));
  }
  return values_;
}

}  // namespace lockstep::test
