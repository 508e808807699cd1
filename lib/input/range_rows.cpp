// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/row_source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lockstep::input {
namespace {

class RangeRows final : public RowSource {
 public:
  RangeRows(std::int64_t start, std::int64_t step, std::int64_t count) noexcept
      : start_(start), step_(step), count_(count) {}
  [[nodiscard]] std::int64_t count() const override { return count_; }
  void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
              Leaves& result) const override {
    Tensor numbers = Tensor::uninitialized(DType::i64, Shape{static_cast<std::int64_t>(rows.size())}, memory);
    const auto elements = numbers.elements<std::int64_t>();
    // unsigned, because intermediate results may wrap; the final result does not wrap
    const auto number = [this](std::int64_t row) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(start_) +
                                       static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(step_));
    };
    std::transform(rows.begin(), rows.end(), elements.begin(), number);
    result.clear();
    result.push_back(std::move(numbers));
  }
  void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const override {
    gather(std::span(&row, 1), memory, result);
    result.front() = result.front().reshaped(Shape{});
  }

 private:
  std::int64_t start_;
  std::int64_t step_;
  std::int64_t count_;
};

/// The rows of a source, each with its number as an additional first tensor.
class EnumeratedRows final : public RowSource {
 public:
  EnumeratedRows(std::shared_ptr<const RowSource> source, std::int64_t start)
      : source_(std::move(source)), start_(start), numbers_(start, 1, source_->count()) {}
  [[nodiscard]] std::int64_t count() const override { return source_->count(); }
  void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
              Leaves& result) const override {
    Leaves elements;
    numbers_.gather(rows, memory, result);
    source_->gather(rows, memory, elements);
    result.insert(result.end(), elements.begin(), elements.end());
  }
  void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const override {
    Leaves element;
    numbers_.element(row, memory, result);
    source_->element(row, memory, element);
    result.insert(result.end(), element.begin(), element.end());
  }
  [[nodiscard]] std::vector<std::string> files() const override { return source_->files(); }
  [[nodiscard]] std::shared_ptr<const RowSource> of_files(const Part& part) const override {
    std::shared_ptr<const RowSource> fewer = source_->of_files(part);
    return fewer ? enumerated_source(std::move(fewer), start_) : nullptr;
  }

 private:
  std::shared_ptr<const RowSource> source_;
  std::int64_t start_;
  RangeRows numbers_;
};

}  // namespace

std::shared_ptr<const RowSource> enumerated_source(std::shared_ptr<const RowSource> source, std::int64_t start) {
  return std::make_shared<EnumeratedRows>(std::move(source), start);
}

std::shared_ptr<const RowSource> range_source(std::int64_t start, std::int64_t step, std::int64_t count) {
  return std::make_shared<RangeRows>(start, step, count);
}

}  // namespace lockstep::input
