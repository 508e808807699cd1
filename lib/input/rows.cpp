// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/rows.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lockstep::input {
namespace {

std::size_t row_bytes(const Tensor& leaf) {
  return static_cast<std::size_t>(without_rows(leaf.shape()).element_count()) * size_of(leaf.dtype());
}

Tensor tensor_of_rows(const Tensor& leaf, std::int64_t rows, const std::shared_ptr<MemoryResource>& memory) {
  return Tensor::uninitialized(leaf.dtype(), with_rows(rows, without_rows(leaf.shape())), memory);
}

/// Gathers small rows, such as labels. The row size is a constant, because calling memcpy with a variable size would
/// take longer than copying such a row.
template <class Unit>
void gather_units(const std::byte* source, std::span<const std::int64_t> rows, std::byte* target) {
  for (const std::int64_t row : rows) {
    std::memcpy(target, source + static_cast<std::size_t>(row) * sizeof(Unit), sizeof(Unit));
    target += sizeof(Unit);
  }
}

/// Copies each run of consecutive rows by one memcpy. Prefetches the start of a later row; the hardware loads the rest.
void gather_blocks(const std::byte* source, std::span<const std::int64_t> rows, std::size_t bytes, std::byte* target) {
  constexpr std::size_t ahead = 4;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t run = 1;
    while (i + run < rows.size() && rows[i + run] == rows[i] + static_cast<std::int64_t>(run)) ++run;
    if (i + ahead < rows.size()) __builtin_prefetch(source + static_cast<std::size_t>(rows[i + ahead]) * bytes);
    std::memcpy(target, source + static_cast<std::size_t>(rows[i]) * bytes, run * bytes);
    target += run * bytes;
    i += run;
  }
}

std::int64_t checked_rows(const Leaves& leaves, const char* call, const char* rule) {
  if (leaves.empty())
    detail::throw_error(Code::invalid_argument, "{}: an element has no tensors, so it has no rows", call);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].shape().rank() == 0) {
      detail::throw_error(Code::invalid_argument, "{}: tensor {} of an element is a scalar, which has no rows; {}",
                          call, i, rule);
    }
    if (leaves[i].shape()[0] != leaves[0].shape()[0]) {
      detail::throw_error(
          Code::invalid_argument,
          "{}: tensor 0 has {} but tensor {} has {}; all tensors of an element must have the same first "
          "extent",
          call, detail::counted(leaves[0].shape()[0], "row"), i, leaves[i].shape()[0]);
    }
  }
  return leaves[0].shape()[0];
}

}  // namespace

Shape with_rows(std::int64_t rows, const Shape& shape) {
  if (shape.rank() == Shape::max_rank) {
    detail::throw_error(Code::invalid_argument,
                        "batch: elements of shape {} have {} axes, so a batch would have {}; a tensor has at most {}",
                        to_string(shape), shape.rank(), shape.rank() + 1, Shape::max_rank);
  }
  std::array<std::int64_t, Shape::max_rank> extents{rows};
  std::copy(shape.extents().begin(), shape.extents().end(), extents.begin() + 1);
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.rank()) + 1));
}

Shape without_rows(const Shape& shape) { return Shape(shape.extents().subspan(1)); }

Shape emptied(const Shape& shape) { return shape.rank() == 0 ? Shape{0} : with_rows(0, without_rows(shape)); }

std::int64_t common_rows(const Leaves& leaves, const char* call) {
  return checked_rows(leaves, call, "it must have at least one axis");
}

std::int64_t common_rows(const Leaves& leaves) {
  return checked_rows(leaves, "dataset", "the tensors of a batch have at least one axis, so call batch first");
}

std::optional<std::int64_t> rows_in(const Leaves& leaves) noexcept {
  for (const Tensor& leaf : leaves) {
    if (leaf.shape().rank() == 0 || leaf.shape()[0] != leaves[0].shape()[0]) return std::nullopt;
  }
  return leaves.empty() ? std::nullopt : std::optional(leaves[0].shape()[0]);
}

std::int64_t RowsAfterMap::next(const RowsBefore& before, const Leaves& result) noexcept {
  if (before.full == own_rows || before.full == not_a_batch) return before.full;
  have_changed_ = have_changed_ || rows_in(result) != before.count;
  return have_changed_ ? own_rows : before.full;
}

void copy_rows(const Leaves& leaves, std::int64_t first, std::int64_t count,
               const std::shared_ptr<MemoryResource>& memory, Leaves& result) {
  result.clear();
  for (const Tensor& leaf : leaves) {
    Tensor rows =
        leaf.shape().rank() == 0 ? Tensor(leaf.dtype(), Shape{0}, memory) : tensor_of_rows(leaf, count, memory);
    if (rows.byte_count() != 0) {
      const std::size_t begin = static_cast<std::size_t>(first) * row_bytes(leaf);
      std::memcpy(rows.data(), static_cast<const std::byte*>(leaf.data()) + begin, rows.byte_count());
    }
    result.push_back(std::move(rows));
  }
}

void gather_rows(const Leaves& leaves, std::span<const std::int64_t> rows,
                 const std::shared_ptr<MemoryResource>& memory, Leaves& result) {
  result.clear();
  for (const Tensor& leaf : leaves) {
    Tensor gathered = tensor_of_rows(leaf, static_cast<std::int64_t>(rows.size()), memory);
    gather_bytes(static_cast<const std::byte*>(leaf.data()), rows, row_bytes(leaf),
                 static_cast<std::byte*>(gathered.data()));
    result.push_back(std::move(gathered));
  }
}

void join_rows(std::span<const Leaves> parts, const std::shared_ptr<MemoryResource>& memory, Leaves& result) {
  const Leaves& model = parts.front();
  std::int64_t rows = 0;
  for (const Leaves& part : parts) {
    rows += common_rows(part);
    bool same = part.size() == model.size();
    for (std::size_t i = 0; same && i < part.size(); ++i) {
      same = part[i].dtype() == model[i].dtype() && without_rows(part[i].shape()) == without_rows(model[i].shape());
    }
    if (!same) {
      detail::throw_error(
          Code::invalid_argument,
          "batch: consecutive batches of the source differ in the number of tensors, a dtype or the shape of a "
          "row; they must be equal, so that rows of both can form one batch");
    }
  }
  result.clear();
  for (std::size_t i = 0; i < model.size(); ++i) {
    Tensor& joined = result.emplace_back(tensor_of_rows(model[i], rows, memory));
    auto* to = static_cast<std::byte*>(joined.data());
    for (const Leaves& part : parts) {
      const std::size_t bytes = part[i].byte_count();
      if (bytes != 0) std::memcpy(to, part[i].data(), bytes);
      to += bytes;
    }
  }
}

void gather_bytes(const std::byte* source, std::span<const std::int64_t> rows, std::size_t bytes, std::byte* target) {
  switch (bytes) {
    case 0: break;
    case 1: gather_units<std::uint8_t>(source, rows, target); break;
    case 2: gather_units<std::uint16_t>(source, rows, target); break;
    case 4: gather_units<std::uint32_t>(source, rows, target); break;
    case 8: gather_units<std::uint64_t>(source, rows, target); break;
    default: gather_blocks(source, rows, bytes, target);
  }
}

void RowStacker::start(std::int64_t rows) {
  limit_ = rows;
  capacity_ = std::min(std::max<std::int64_t>(capacity_, 64), rows);
  count_ = 0;
  stacked_.clear();
}

void RowStacker::reserve(std::int64_t rows) {
  Leaves shorter = std::move(stacked_);
  stacked_.clear();
  capacity_ = rows;
  for (const Tensor& leaf : shorter) {
    Tensor& longer = stacked_.emplace_back(tensor_of_rows(leaf, rows, memory_));
    if (leaf.byte_count() != 0) std::memcpy(longer.data(), leaf.data(), leaf.byte_count());
  }
}

void RowStacker::add(const Leaves& element) {
  if (count_ == 0) {
    for (const Tensor& leaf : element) stacked_.emplace_back(leaf.dtype(), with_rows(capacity_, leaf.shape()), memory_);
  } else if (count_ == capacity_) {
    reserve(capacity_ + std::min(capacity_, limit_ - capacity_));
  }
  if (element.size() != stacked_.size()) {
    detail::throw_error(
        Code::invalid_argument,
        "batch: element {} of the batch has {}, but element 0 has {}; all elements of a batch must have as many",
        count_, detail::counted(element.size(), "tensor"), stacked_.size());
  }
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& leaf = element[i];
    Tensor& stack = stacked_[i];
    const Shape expected = without_rows(stack.shape());
    if (leaf.dtype() != stack.dtype() || leaf.shape() != expected) {
      detail::throw_error(
          Code::invalid_argument,
          "batch: tensor {} is {} {} in element {} of the batch, but {} {} in element 0; all elements of a batch must "
          "have the same dtypes and shapes",
          i, to_string(leaf.dtype()), to_string(leaf.shape()), count_, to_string(stack.dtype()), to_string(expected));
    }
    const std::size_t bytes = leaf.byte_count();
    if (bytes != 0) {
      std::memcpy(static_cast<std::byte*>(stack.data()) + static_cast<std::size_t>(count_) * bytes, leaf.data(), bytes);
    }
  }
  ++count_;
}

void RowStacker::finish(Leaves& result) {
  if (count_ == capacity_) {
    result = std::move(stacked_);
  } else {
    copy_rows(stacked_, 0, count_, memory_, result);
  }
  stacked_.clear();
}

}  // namespace lockstep::input
