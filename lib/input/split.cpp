// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/split.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "input/rows.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace lockstep {

std::string_view to_string(SplitPolicy policy) noexcept {
  switch (policy) {
    case SplitPolicy::fixed_chunks: return "FIXED_CHUNKS";
    case SplitPolicy::ceil_slices: return "CEIL_SLICES";
  }
  return "unknown";
}

std::string_view to_string(AutoShardPolicy policy) noexcept {
  switch (policy) {
    case AutoShardPolicy::automatic: return "AUTO";
    case AutoShardPolicy::file: return "FILE";
    case AutoShardPolicy::data: return "DATA";
    case AutoShardPolicy::off: return "OFF";
    case AutoShardPolicy::hint: return "HINT";
    case AutoShardPolicy::file_or_data: return "FILE_OR_DATA";
  }
  return "unknown";
}

}  // namespace lockstep

namespace lockstep::input {
namespace {

RowRange within(std::int64_t rows, std::int64_t begin, std::int64_t end) noexcept {
  const std::int64_t first = std::min(begin, rows);
  return {first, std::min(end, rows) - first};
}

class StreamChunksCursor final : public WholeCursor {
 public:
  StreamChunksCursor(std::unique_ptr<Cursor> batches, int replicas, int first, std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)), batches_(std::move(batches)), replicas_(replicas), at_(first) {}
  bool advance() override {
    if (!find_rows()) return false;
    std::int64_t wanted = chunk_of(SplitPolicy::fixed_chunks, full_, full_, replicas_, at_).count;
    at_ = (at_ + 1) % replicas_;
    pieces_.clear();
    do {
      const std::int64_t count = std::min(wanted, end_ - first_);
      batches_->read_rows(first_, count, pieces_.emplace_back());
      first_ += count;
      wanted -= count;
    } while (wanted > 0 && find_rows());
    if (pieces_.size() == 1) {
      present_ = std::move(pieces_.front());
    } else {
      join_rows(pieces_, memory_, present_);
    }
    return true;
  }

 private:
  /// If all rows of the current batch have been taken, moves to the next batch that has rows. Returns false at the end.
  bool find_rows() {
    while (first_ == end_) {
      if (ended_ || !batches_->advance()) return !(ended_ = true);
      first_ = 0;
      end_ = rows_to_divide(*batches_, replicas_);
      full_ = batches_->full_rows() == own_rows ? end_ : batches_->full_rows();
    }
    return true;
  }

  std::unique_ptr<Cursor> batches_;
  int replicas_;
  int at_;                  // number of the next chunk in a full batch
  std::int64_t first_ = 0;  // first row of the current batch that has not been taken
  std::int64_t end_ = 0;
  std::int64_t full_ = 0;  // number of rows of a full batch
  bool ended_ = false;
  std::vector<Leaves> pieces_;
};

class StreamChunksNode final : public TransformNode {
 public:
  StreamChunksNode(std::shared_ptr<const Node> batches, int replicas, int first) noexcept
      : TransformNode(std::move(batches)), replicas_(replicas), first_(first) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<StreamChunksCursor>(source_->open(options), replicas_, first_, options.memory);
  }
  [[nodiscard]] Cardinality cardinality() const override {
    const Cardinality rows = source_->row_count();
    if (!rows.is_known()) return rows;
    return Cardinality::known(chunks_of_stream(stream_chunks(source_->batch_size(), replicas_, first_), rows.count()));
  }

 private:
  [[nodiscard]] std::shared_ptr<const Node> with_source(std::shared_ptr<const Node> source) const override {
    return stream_chunks_node(std::move(source), replicas_, first_);
  }
  int replicas_;
  int first_;
};

class BatchSlicesCursor final : public Cursor {
 public:
  BatchSlicesCursor(std::unique_ptr<Cursor> batches, int slices) noexcept
      : batches_(std::move(batches)), slices_(slices), slice_(slices - 1) {}
  bool advance() override {
    if (++slice_ < slices_) return true;
    slice_ = 0;
    return batches_->advance();
  }
  void read(Leaves& element) override { read_rows(0, rows(), element); }
  std::int64_t rows() override { return range().count; }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) override {
    batches_->read_rows(range().first + first, count, element);
  }

 private:
  [[nodiscard]] RowRange range() {
    const std::int64_t rows = rows_to_divide(*batches_, slices_);
    return chunk_of(SplitPolicy::ceil_slices, rows, rows, slices_, slice_);
  }

  std::unique_ptr<Cursor> batches_;
  int slices_;
  int slice_;
};

class BatchSlicesNode final : public TransformNode {
 public:
  BatchSlicesNode(std::shared_ptr<const Node> batches, int slices) noexcept
      : TransformNode(std::move(batches)), slices_(slices) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<BatchSlicesCursor>(source_->open(options), slices_);
  }
  [[nodiscard]] Cardinality cardinality() const override {
    const Cardinality batches = source_->cardinality();
    if (!batches.is_known()) return batches;
    const bool fits = batches.count() <= std::numeric_limits<std::int64_t>::max() / slices_;
    return fits ? Cardinality::known(batches.count() * slices_) : Cardinality::unknown();
  }

 private:
  [[nodiscard]] std::shared_ptr<const Node> with_source(std::shared_ptr<const Node> source) const override {
    return batch_slices_node(std::move(source), slices_);
  }
  int slices_;
};

}  // namespace

RowRange chunk_of(SplitPolicy policy, std::int64_t full, std::int64_t rows, int replicas, int replica) noexcept {
  if (policy == SplitPolicy::ceil_slices) {
    const std::int64_t slice = rows / replicas + (rows % replicas != 0 ? 1 : 0);
    return within(rows, replica * slice, (replica + 1) * slice);
  }
  const std::int64_t size = std::max(full, rows);
  const auto begin = [&](std::int64_t r) { return r * (size / replicas) + std::min(r, size % replicas); };
  return within(rows, begin(replica), begin(replica + 1));
}

std::vector<std::int64_t> stream_chunks(std::int64_t full, int replicas, int first) {
  std::vector<std::int64_t> sizes;
  for (int r = 0; r < replicas; ++r) {
    sizes.push_back(chunk_of(SplitPolicy::fixed_chunks, full, full, replicas, (first + r) % replicas).count);
  }
  return sizes;
}

std::int64_t chunks_of_stream(std::span<const std::int64_t> sizes, std::int64_t rows) noexcept {
  if (rows == 0) return 0;
  const std::int64_t full = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::int64_t rounds = (rows - 1) / full;
  std::int64_t chunks = rounds * static_cast<std::int64_t>(sizes.size());
  for (std::int64_t left = rows - rounds * full; left > 0; ++chunks)
    left -= sizes[static_cast<std::size_t>(chunks) % sizes.size()];
  return chunks;
}

std::shared_ptr<const Node> stream_chunks_node(std::shared_ptr<const Node> batches, int replicas, int first) {
  return std::make_shared<StreamChunksNode>(std::move(batches), replicas, first);
}

std::int64_t rows_to_divide(Cursor& cursor, int replicas) {
  if (cursor.full_rows() == not_a_batch) throw_not_batched(replicas);
  return cursor.rows();
}

void throw_not_batched(int replicas) {
  detail::throw_error(Code::invalid_argument,
                      "experimental_distribute_dataset: the dataset is not batched, so it cannot be split among {}; "
                      "call batch(global_batch_size) on it first",
                      detail::counted(replicas, "replica"));
}

std::shared_ptr<const Node> batch_slices_node(std::shared_ptr<const Node> batches, int slices) {
  return std::make_shared<BatchSlicesNode>(std::move(batches), slices);
}

}  // namespace lockstep::input
