// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/mutex.hpp"
#include "input/row_source.hpp"
#include "input/rows.hpp"
#include "input/stream_nodes.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace lockstep::input {
namespace {

/// Readers get copies of the cached tensors, because a reader may write to the tensors that it gets.
Leaves copy_of(const Leaves& element, const std::shared_ptr<MemoryResource>& memory) {
  Leaves copy;
  copy.reserve(element.size());
  for (const Tensor& leaf : element) {
    copy.push_back(Tensor::uninitialized(leaf.dtype(), leaf.shape(), memory));
    copy.back().copy_from(leaf.view());
  }
  return copy;
}

class CachedRows final : public RowSource {
 public:
  explicit CachedRows(std::shared_ptr<const RowSource> source)
      : source_(std::move(source)), kept_(static_cast<std::size_t>(source_->count())) {}
  CachedRows(const CachedRows&) = delete;
  CachedRows& operator=(const CachedRows&) = delete;
  ~CachedRows() override {
    for (const std::atomic<const Leaves*>& row : kept_) delete row.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::int64_t count() const override { return source_->count(); }
  void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
              Leaves& result) const override {
    if (rows.empty()) {
      source_->gather(rows, memory, result);
      return;
    }
    read_missing(rows);
    RowStacker stacker(memory);
    stacker.start(static_cast<std::int64_t>(rows.size()));
    for (const std::int64_t row : rows) stacker.add(kept(row));
    stacker.finish(result);
  }
  void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const override {
    result = copy_of(kept(row), memory);
  }
  [[nodiscard]] std::vector<std::string> files() const override { return source_->files(); }
  [[nodiscard]] std::shared_ptr<const RowSource> of_files(const Part& part) const override {
    std::shared_ptr<const RowSource> fewer = source_->of_files(part);
    return fewer ? cached_source(std::move(fewer)) : nullptr;
  }

 private:
  [[nodiscard]] std::atomic<const Leaves*>& place(std::int64_t row) const {
    return kept_[static_cast<std::size_t>(row)];
  }
  [[nodiscard]] const Leaves& kept(std::int64_t row) const {
    if (const Leaves* const there = place(row).load(std::memory_order_acquire)) return *there;
    Leaves element;
    source_->element(row, heap_memory_resource(), element);
    return keep(row, element);
  }
  /// Stores a copy of `element`, unless another thread has stored the row already. Returns the cached element.
  const Leaves& keep(std::int64_t row, const Leaves& element) const {
    auto mine = std::make_unique<const Leaves>(copy_of(element, heap_memory_resource()));
    const Leaves* there = nullptr;
    if (place(row).compare_exchange_strong(there, mine.get(), std::memory_order_acq_rel)) return *mine.release();
    return *there;
  }
  /// Reads all rows that are not cached yet in one call, because a source may read several rows in parallel.
  void read_missing(std::span<const std::int64_t> rows) const {
    std::vector<std::int64_t> missing;
    for (const std::int64_t row : rows) {
      if (place(row).load(std::memory_order_acquire) == nullptr) missing.push_back(row);
    }
    std::vector<Leaves> elements(missing.size());
    source_->elements(missing, heap_memory_resource(), elements);
    for (std::size_t i = 0; i < missing.size(); ++i) keep(missing[i], elements[i]);
  }

  std::shared_ptr<const RowSource> source_;
  mutable std::vector<std::atomic<const Leaves*>>
      kept_;  // by row: null, or the cached element, which is never replaced
};

/// The elements of a sequence; stored when a pass has read the sequence to its end.
class CachedElements {
 public:
  using Elements = std::shared_ptr<const std::vector<BufferedElement>>;
  [[nodiscard]] Elements get() const {
    const detail::MutexLock lock(mutex_);
    return elements_;
  }
  void set(std::vector<BufferedElement> elements) {
    auto all = std::make_shared<const std::vector<BufferedElement>>(std::move(elements));
    const detail::MutexLock lock(mutex_);
    if (!elements_) elements_ = std::move(all);
  }

 private:
  mutable detail::Mutex mutex_;
  Elements elements_ LOCKSTEP_GUARDED_BY(mutex_);
};

class CachingCursor final : public WholeCursor {
 public:
  CachingCursor(std::unique_ptr<Cursor> source, std::shared_ptr<CachedElements> kept,
                std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)), source_(std::move(source)), kept_(std::move(kept)) {}
  bool advance() override {
    if (!source_->advance()) {
      kept_->set(std::move(elements_));
      return false;
    }
    source_->read(present_);
    full_rows_ = source_->full_rows();
    elements_.push_back({copy_of(present_, heap_memory_resource()), full_rows_});
    return true;
  }

 private:
  std::unique_ptr<Cursor> source_;
  std::shared_ptr<CachedElements> kept_;
  std::vector<BufferedElement> elements_;
};

class CachedCursor final : public Cursor {
 public:
  CachedCursor(CachedElements::Elements elements, std::shared_ptr<MemoryResource> memory) noexcept
      : elements_(std::move(elements)), memory_(std::move(memory)) {}
  bool advance() override { return ++next_ <= elements_->size(); }
  void read(Leaves& element) override { element = copy_of(present().tensors, memory_); }
  std::int64_t rows() override { return common_rows(present().tensors); }
  [[nodiscard]] std::int64_t full_rows() const override { return present().full_rows; }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) override {
    copy_rows(present().tensors, first, count, memory_, element);
  }

 private:
  [[nodiscard]] const BufferedElement& present() const { return (*elements_)[next_ - 1]; }
  CachedElements::Elements elements_;
  std::shared_ptr<MemoryResource> memory_;
  std::size_t next_ = 0;
};

class CacheNode final : public TransformNode {
 public:
  using TransformNode::TransformNode;
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    if (CachedElements::Elements elements = kept_->get())
      return std::make_unique<CachedCursor>(std::move(elements), options.memory);
    PassOptions first = options;
    first.pass = 0;
    return std::make_unique<CachingCursor>(source_->open(first), kept_, options.memory);
  }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<CacheNode>(std::move(source));
  }
  std::shared_ptr<CachedElements> kept_ = std::make_shared<CachedElements>();
};

}  // namespace

std::shared_ptr<const RowSource> cached_source(std::shared_ptr<const RowSource> source) {
  return std::make_shared<CachedRows>(std::move(source));
}

NodePointer cache_node(NodePointer source) {
  if (const IndexedRows* const rows = source->indexed()) {
    return indexed_node({cached_source(rows->source), frozen_order(rows->order)});
  }
  return std::make_shared<CacheNode>(std::move(source));
}

}  // namespace lockstep::input
