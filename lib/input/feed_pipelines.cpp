// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every rank has a dataset of its own, and each of its replicas takes the next element. The datasets may end at
// different steps: the ranks agree on the last one, and replicas without data get batches without rows.

#include "base/check.hpp"
#include "input/feed_implementation.hpp"
#include "input/recycling_memory.hpp"
#include "input/rows.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t not_known = -1;

/// One value per local replica to all replicas' values.
template <class T>
std::vector<T> gather_all(Communicator& communicator, std::vector<T> mine) {
  std::vector<ConstTensorView> inputs;
  inputs.reserve(mine.size());
  for (T& value : mine) inputs.push_back(view_of(std::span<const T>(&value, 1)));
  std::vector<T> all(static_cast<std::size_t>(communicator.layout().replicas()));
  const TensorView output = view_of(std::span<T>(all));
  const Item item{inputs, std::span(&output, 1)};
  communicator.all_gather(std::span(&item, 1), {.name = "input step"});
  return all;
}

/// What an element's tensors look like, and how ranks without one learn it.
class ElementKind {
 public:
  explicit ElementKind(std::size_t leaves) noexcept : leaves_(leaves) {}

  [[nodiscard]] bool is_known() const noexcept { return !empty_.empty(); }
  void learn(const Leaves& element) {
    if (is_known()) return;
    for (const Tensor& leaf : element) empty_.emplace_back(leaf.dtype(), emptied(leaf.shape()));
  }
  /// An element without rows.
  [[nodiscard]] Leaves without_rows_of_it() const {
    Leaves element;
    for (const Tensor& leaf : empty_) element.push_back(leaf.clone());
    return element;
  }
  /// From rank `root` to all. Collective. 80 bytes per tensor.
  void broadcast(Communicator& communicator, int root) {
    constexpr std::size_t words = 2 + static_cast<std::size_t>(Shape::max_rank);
    std::vector<std::int64_t> text(leaves_ * words);
    if (communicator.rank() == root) write(text, words);
    const TensorView output = view_of(std::span<std::int64_t>(text));
    const ConstTensorView input(output);
    const bool is_root = communicator.rank() == root;
    const Item item{is_root ? std::span(&input, 1) : std::span<const ConstTensorView>(),
                    is_root ? std::span<const TensorView>() : std::span(&output, 1)};
    communicator.broadcast(std::span(&item, 1), root, {.name = "input element kind"});
    if (!is_known()) read(text, words);
  }

 private:
  void write(std::span<std::int64_t> text, std::size_t words) const {
    LOCKSTEP_CHECK(empty_.size() == leaves_);
    for (std::size_t i = 0; i < leaves_; ++i) {
      const std::span<std::int64_t> entry = text.subspan(i * words, words);
      const std::span<const std::int64_t> extents = empty_[i].shape().extents();
      entry[0] = static_cast<std::int64_t>(empty_[i].dtype());
      entry[1] = empty_[i].shape().rank();
      std::copy(extents.begin(), extents.end(), entry.begin() + 2);
    }
  }
  void read(std::span<const std::int64_t> text, std::size_t words) {
    for (std::size_t i = 0; i < leaves_; ++i) {
      const std::span<const std::int64_t> entry = text.subspan(i * words, words);
      const Shape shape(entry.subspan(2, static_cast<std::size_t>(entry[1])));
      empty_.emplace_back(static_cast<DType>(entry[0]), shape);
    }
  }

  std::size_t leaves_;
  Leaves empty_;
};

class PipelineFeed final : public Feed::Implementation {
 public:
  /// Collective.
  PipelineFeed(std::unique_ptr<Cursor> cursor, Cardinality elements, std::size_t leaves,
               const Communicator& communicator, const InputOptions& options, std::uint64_t first_step)
      : communicator_(communicator),
        local_replicas_(static_cast<std::size_t>(communicator.local_replicas())),
        kind_(leaves),
        cursor_(std::move(cursor)),
        passed_over_(first_step * local_replicas_),
        queue_(options.prefetch_batches, [this](StepBatches& step) { return produce(step); }) {
    agree_on_steps(elements, first_step);
  }

 private:
  /// Where every rank knows its number of elements: how many steps there will be, and what elements look like.
  void agree_on_steps(Cardinality elements, std::uint64_t first_step) {
    const auto replicas = static_cast<std::int64_t>(local_replicas_);
    std::int64_t mine = not_known;
    if (elements.is_infinite()) mine = endless;
    if (elements.is_known()) mine = elements.count() / replicas + (elements.count() % replicas != 0 ? 1 : 0);
    if (elements.is_known()) mine -= static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(mine), first_step));
    const std::vector<std::int64_t> steps = gather_all(communicator_, std::vector(local_replicas_, mine));
    if (std::find(steps.begin(), steps.end(), not_known) != steps.end()) return;
    steps_left_ = *std::max_element(steps.begin(), steps.end());
    if (steps_left_ > 0 && std::find(steps.begin(), steps.end(), 0) != steps.end()) {
      const auto first = std::find_if(steps.begin(), steps.end(), [](std::int64_t count) { return count > 0; });
      const int root = communicator_.layout().rank_of(static_cast<int>(first - steps.begin()));
      if (communicator_.rank() == root) read_ahead();
      kind_.broadcast(communicator_, root);
    }
  }

  bool do_next(StepBatches& batches) override {
    if (over_ || steps_left_ == 0) return false;
    read_ahead();
    if (steps_left_ == not_known) {
      if (!agree_on_step()) return !(over_ = true);
    } else if (steps_left_ != endless) {
      --steps_left_;
    }
    batches = std::move(step_);
    step_.clear();
    have_read_ = false;
    while (batches.size() < local_replicas_) batches.push_back(kind_.without_rows_of_it());
    return true;
  }
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept override { return queue_.waited(); }

  /// Makes `step_` this rank's next step, shorter or empty at the end.
  void read_ahead() {
    if (have_read_) return;
    try {
      if (!queue_.pop(step_)) step_.clear();
    } catch (...) {
      over_ = true;
      tell_peers(communicator_, std::current_exception());
      throw;
    }
    have_read_ = true;
    if (!step_.empty()) kind_.learn(step_.front());
  }

  /// Whether any replica has data. Ranks that have never seen an element learn what one looks like.
  bool agree_on_step() {
    constexpr std::uint8_t has_data = 1;
    constexpr std::uint8_t knows_kind = 2;
    std::vector<std::uint8_t> mine(local_replicas_, kind_.is_known() ? knows_kind : std::uint8_t{0});
    for (std::size_t i = 0; i < step_.size(); ++i) mine[i] |= has_data;
    const std::vector<std::uint8_t> all = gather_all(communicator_, std::move(mine));
    if (std::none_of(all.begin(), all.end(), [](std::uint8_t flags) { return (flags & has_data) != 0; })) return false;
    const auto knows = [](std::uint8_t flags) { return (flags & knows_kind) != 0; };
    if (!std::all_of(all.begin(), all.end(), knows)) {
      const auto first = std::find_if(all.begin(), all.end(), knows);
      kind_.broadcast(communicator_, communicator_.layout().rank_of(static_cast<int>(first - all.begin())));
    }
    return true;
  }

  bool produce(StepBatches& step) {
    for (; passed_over_ > 0 && !ended_; --passed_over_) ended_ = !cursor_->advance();
    step.clear();
    while (step.size() < local_replicas_ && !ended_) {
      ended_ = !cursor_->advance();
      if (!ended_) cursor_->read(step.emplace_back());
    }
    return !step.empty();
  }

  Communicator communicator_;
  std::size_t local_replicas_;
  ElementKind kind_;
  std::int64_t steps_left_ = not_known;
  StepBatches step_;        // read, not given yet
  bool have_read_ = false;  // whether `step_` is the next one
  bool over_ = false;
  std::unique_ptr<Cursor> cursor_;  // the queue's thread's, as are the next two
  std::uint64_t passed_over_;       // elements before the first one that is given
  bool ended_ = false;
  StepQueue queue_;
};

class PipelineSource final : public FeedSource::Implementation {
 public:
  PipelineSource(std::shared_ptr<const Node> node, std::size_t leaves, const Communicator& communicator,
                 const InputOptions& options)
      : Implementation(communicator.layout().first(communicator.rank()), communicator.local_replicas()),
        node_(std::move(node)),
        leaves_(leaves),
        communicator_(communicator),
        options_(options) {}

 private:
  [[nodiscard]] std::unique_ptr<Feed::Implementation> do_open(ReadingPosition position) override {
    return std::make_unique<PipelineFeed>(open_cursor(position.pass), node_->cardinality(), leaves_, communicator_,
                                          options_, position.step);
  }
  [[nodiscard]] std::unique_ptr<Cursor> open_cursor(std::uint64_t pass) const {
    try {
      return node_->open({pass, recycling_memory()});
    } catch (...) {
      tell_peers(communicator_, std::current_exception());
      throw;
    }
  }

  std::shared_ptr<const Node> node_;
  std::size_t leaves_;
  Communicator communicator_;
  InputOptions options_;
};

}  // namespace

FeedSource feed_pipelines(const Pipeline& local, std::size_t leaves, const Communicator& communicator,
                          const InputOptions& options) {
  check_options(options);
  return FeedSource(std::make_shared<PipelineSource>(node_to_read(local, options), leaves, communicator, options));
}

}  // namespace lockstep::input
