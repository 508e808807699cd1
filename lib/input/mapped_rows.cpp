// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/mapped_rows.hpp"

#include "base/check.hpp"
#include "input/files_node.hpp"
#include "input/rows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::input {
namespace {

class MappedRows final : public RowSource {
 public:
  MappedRows(FileList files, std::vector<RowBlock> blocks)
      : files_(std::move(files)), blocks_(std::move(blocks)), spec_(blocks_.front().kind) {
    row_bytes_ = static_cast<std::size_t>(spec_.row.element_count()) * size_of(spec_.dtype);
    for (const RowBlock& block : blocks_) ends_.push_back(count() + block.rows);
  }
  [[nodiscard]] std::int64_t count() const override { return ends_.empty() ? 0 : ends_.back(); }
  void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
              Leaves& result) const override {
    Tensor gathered =
        Tensor::uninitialized(spec_.dtype, with_rows(static_cast<std::int64_t>(rows.size()), spec_.row), memory);
    copy(rows, static_cast<std::byte*>(gathered.data()));
    result.assign(1, gathered);
  }
  void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const override {
    Tensor element = Tensor::uninitialized(spec_.dtype, spec_.row, memory);
    copy(std::span(&row, 1), static_cast<std::byte*>(element.data()));
    result.assign(1, element);
  }
  [[nodiscard]] std::vector<std::string> files() const override { return files_; }
  [[nodiscard]] std::shared_ptr<const RowSource> of_files(const Part& part) const override {
    FileList files = part_of(files_, part);
    std::vector<RowBlock> blocks;
    for (auto i = static_cast<std::size_t>(part.index); i < blocks_.size(); i += static_cast<std::size_t>(part.count)) {
      blocks.push_back(blocks_[i]);
    }
    return std::make_shared<MappedRows>(std::move(files), std::move(blocks));
  }

 private:
  void copy(std::span<const std::int64_t> rows, std::byte* target) const {
    if (blocks_.size() == 1) {
      copy(blocks_.front(), rows, target);
      return;
    }
    std::vector<std::int64_t> of_block;
    for (std::size_t i = 0; i < rows.size(); i += of_block.size()) {
      const auto end = std::upper_bound(ends_.begin(), ends_.end(), rows[i]);
      const RowBlock& block = blocks_[static_cast<std::size_t>(end - ends_.begin())];
      const std::int64_t begin = *end - block.rows;
      of_block.clear();
      for (std::size_t j = i; j < rows.size() && rows[j] >= begin && rows[j] < *end; ++j) {
        of_block.push_back(rows[j] - begin);
      }
      copy(block, of_block, target + i * row_bytes_);
    }
  }
  void copy(const RowBlock& block, std::span<const std::int64_t> rows, std::byte* target) const {
    gather_bytes(block.first, rows, row_bytes_, target);
    to_host({target, rows.size() * row_bytes_}, spec_.dtype, block.kind.is_swapped);
  }

  FileList files_;
  std::vector<RowBlock> blocks_;
  std::vector<std::int64_t> ends_;  // by block: number of rows up to the end of the block
  RowSpec spec_;
  std::size_t row_bytes_ = 0;
};

template <class Unit>
void reverse_bytes(std::span<std::byte> elements) noexcept {
  for (std::size_t i = 0; i < elements.size(); i += sizeof(Unit)) {
    Unit unit{};
    std::memcpy(&unit, elements.data() + i, sizeof(Unit));
    if constexpr (sizeof(Unit) == 2) unit = __builtin_bswap16(unit);
    if constexpr (sizeof(Unit) == 4) unit = __builtin_bswap32(unit);
    if constexpr (sizeof(Unit) == 8) unit = __builtin_bswap64(unit);
    std::memcpy(elements.data() + i, &unit, sizeof(Unit));
  }
}

}  // namespace

std::shared_ptr<const RowSource> mapped_rows(const char* reader, const FileList& files, std::vector<RowBlock> blocks) {
  const RowSpec& first = blocks.front().kind;
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    const RowSpec& kind = blocks[i].kind;
    if (kind.dtype == first.dtype && kind.row == first.row) continue;
    detail::throw_error(Code::invalid_argument,
                        "{}: rows of {} are {}{}, but rows of {} are {}{}; all files of a dataset must have rows of "
                        "the same dtype and shape",
                        reader, files[i], to_string(kind.dtype), to_string(kind.row), files[0], to_string(first.dtype),
                        to_string(first.row));
  }
  return std::make_shared<MappedRows>(files, std::move(blocks));
}

Pipeline pipeline_of(std::shared_ptr<const RowSource> source) {
  std::shared_ptr<const RowOrder> order = sequential_order(source->count());
  return Pipeline::from_node(indexed_node({std::move(source), std::move(order)}));
}

void to_host(std::span<std::byte> elements, DType dtype, bool is_swapped) noexcept {
  if (dtype == DType::boolean) {
    for (std::byte& element : elements) element = element == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  if (!is_swapped) return;
  switch (size_of(dtype)) {
    case 2: reverse_bytes<std::uint16_t>(elements); break;
    case 4: reverse_bytes<std::uint32_t>(elements); break;
    case 8: reverse_bytes<std::uint64_t>(elements); break;
    default: break;
  }
}

}  // namespace lockstep::input
