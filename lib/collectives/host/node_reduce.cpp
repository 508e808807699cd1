// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_reduce.hpp"

#include "base/check.hpp"
#include "collectives/host/buffer_table.hpp"
#include "collectives/host/node_plan.hpp"
#include "kernels/reduce.hpp"
#include "schedule/canonical_tree.hpp"
#include "transport/shm/flag_delay.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::size_t no_limit = std::size_t{1} << 60;

/// The rank cannot show all its buffers to the others.
constexpr std::uint32_t flag_staged = 1;

enum class Mode : std::uint8_t {
  flat,    ///< all inputs lie on the boards; everybody makes the whole result
  direct,  ///< one round, in place
  staged,  ///< rounds, since some buffers cannot be seen
};

/// Of this processor; a common size where the system does not say.
std::size_t last_level_cache_bytes() {
  static const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{32} << 20;
}

template <class Byte>
Byte* at(Byte* base, std::int64_t element, DType dtype) {
  return base + static_cast<std::size_t>(element) * size_of(dtype);
}

class NodeReduce final : public Operation {
 public:
  NodeReduce(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group, std::vector<HostItem> items,
             const NodeReduceTuning& tuning)
      : Operation(descriptor),
        layout_(layout),
        group_(group),
        rank_(group.rank()),
        items_(std::move(items)),
        merges_(fold_merges_of_leaves({0, layout.replicas()})),
        staged_rounds_(cut_rounds(items_, descriptor.op, layout.ranks(), tuning.round_bytes)),
        own_(group, items_, descriptor.op),
        peers_(static_cast<std::size_t>(layout.ranks())) {
    for (int rank = 0; rank < layout.ranks(); ++rank) most_replicas_ = std::max(most_replicas_, layout.count(rank));
    for (const NodeRound& round : staged_rounds_) {
      most_round_bytes_ = std::max(most_round_bytes_, round.input_bytes);
      most_result_bytes_ = std::max(most_result_bytes_, round.most_result_bytes);
    }
    const std::size_t board_bytes = static_cast<std::size_t>(most_replicas_) * staged_rounds_.front().input_bytes;
    fits_board_ = staged_rounds_.size() == 1 && board_bytes <= Board::payload_bytes;
    always_flat_ = fits_board_ && board_bytes <= std::max<std::size_t>(tuning.flat_bytes, 64);
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      if (rank != rank_) others_.push_back(rank);
    }
    inputs_.resize(static_cast<std::size_t>(layout.replicas()));
    std::size_t list_bytes = 0;
    for (const HostItem& item : items_) {
      functions_.push_back(reduce_function(descriptor.op, item.dtype));
      list_bytes += static_cast<std::size_t>(item.count()) * size_of(item.dtype);
    }
    // inputs and outputs of all ranks together
    leaves_caches_ = list_bytes > last_level_cache_bytes() / 2 / static_cast<std::size_t>(layout_.replicas());
  }

  bool is_reusable() const noexcept override { return true; }

  void arrive(std::uint64_t tag, Arrival& arrival) override {
    Board& board = group_.own_board();
    tag_ = tag;
    slot_ = Board::slot_of(tag);
    base_clock_ = board.clock.value.load(std::memory_order_relaxed);  // its only writer is this rank
    arrival.clock = base_clock_;
    arrival.flags = 0;
    round_ = 0;
    phase_ = Phase::gather;
    next_ = 0;
    if (always_flat_) {
      copy_in(staged_rounds_.front(), board.payloads[slot_].bytes.data(), true);
      return;
    }
    arrival.table = static_cast<std::uint64_t>(own_.address());
    arrival.table_id = own_.id();
    if (own_.is_visible()) return;
    arrival.flags = flag_staged;
    if (fits_board_) {
      copy_in(staged_rounds_.front(), board.payloads[slot_].bytes.data(), true);
      return;
    }
    NodeMemory& staging = group_.staging().inputs;
    group_.reserve(staging, 2 * staging_stride(rank_));
    arrival.staging = static_cast<std::uint64_t>(group_.address_of(staging.data(), 2 * staging_stride(rank_)));
    copy_in(staged_rounds_.front(), staging.data(), false);
  }

  void start(Transport&, Workspace&) override {
    if (always_flat_) {
      mode_ = Mode::flat;
      return;
    }
    others_staged_ = false;
    bool all_staged = !own_.is_visible();
    for (const int rank : others_) {
      const bool is_staged = arrival_of(rank).flags == flag_staged;
      others_staged_ = others_staged_ || is_staged;
      all_staged = all_staged && is_staged;
    }
    const bool any_staged = others_staged_ || !own_.is_visible();
    mode_ = !any_staged ? Mode::direct : (all_staged && fits_board_ ? Mode::flat : Mode::staged);
  }

  bool advance(Transport&, Workspace&) override {
    if (mode_ == Mode::flat) {
      reduce_flat();
      return true;
    }
    const std::size_t rounds = mode_ == Mode::direct ? 1 : staged_rounds_.size();
    while (round_ < rounds) {
      if (phase_ == Phase::gather) {
        // arrivals say that the first round is ready
        if (round_ > 0 && !all_clocks_reached(2 * round_)) return false;
        if (!begin_work()) return false;
        mode_ == Mode::direct ? reduce_direct() : reduce_staged();
        end_work();
        tick();
        if (round_ + 1 < rounds) {
          if (!own_.is_visible()) copy_in(staged_rounds_[round_ + 1], staging_of_round(round_ + 1), false);
          tick();
        }
        phase_ = Phase::spread;
      }
      if (!all_clocks_reached(2 * round_ + 1)) return false;
      if (mode_ == Mode::staged) copy_out();
      phase_ = Phase::gather;
      ++round_;
    }
    return true;
  }

  std::vector<int> awaited_ranks() const override {
    std::vector<int> ranks;
    for (const int rank : others_) {
      if (!has_clock_reached(rank, phase_ == Phase::gather ? 2 * round_ : 2 * round_ + 1)) ranks.push_back(rank);
    }
    return ranks;
  }

  /// The engine has marked the operation as abandoned on this rank's board, so nobody begins to work on it any more.
  /// Who is in the middle of it gets a moment to end.
  bool abandon(Transport&) noexcept override {
    if (mode_ == Mode::flat) return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (const int rank : others_) {
      while (group_.board(rank).working.value.load(std::memory_order_seq_cst) == tag_) {
        if (std::chrono::steady_clock::now() > end) {
          group_.staging().inputs.leak();
          group_.staging().results.leak();
          own_.leak();
          return true;
        }
        std::this_thread::yield();
      }
    }
    return false;
  }

 private:
  enum class Phase : std::uint8_t { gather, spread };

  [[nodiscard]] const Arrival& arrival_of(int rank) const { return group_.board(rank).arrivals[slot_]; }

  // Clocks: in round k a rank makes its slice and ticks (2k + 1 since its arrival), then has its inputs of the next
  // round ready and ticks again (2k + 2). In the last round there is no second tick.

  [[nodiscard]] bool has_clock_reached(int rank, std::size_t steps) const {
    return group_.board(rank).clock.value.load(std::memory_order_acquire) >= arrival_of(rank).clock + steps;
  }

  bool all_clocks_reached(std::size_t steps) {
    at_flag();
    for (; next_ < others_.size(); ++next_) {
      if (!has_clock_reached(others_[next_], steps)) return false;
    }
    next_ = 0;
    return true;
  }

  void tick() {
    at_flag();
    std::atomic<std::uint64_t>& clock = group_.own_board().clock.value;
    clock.store(clock.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// Announces that this rank is about to touch the others' memory; false when one of them has given the operation up.
  /// Sequentially consistent on both sides: either we see that it was given up, or they see that we are at work.
  bool begin_work() {
    at_flag();
    std::atomic<std::uint64_t>& working = group_.own_board().working.value;
    working.store(tag_, std::memory_order_seq_cst);
    for (const int rank : others_) {
      if (arrival_of(rank).abandoned.load(std::memory_order_seq_cst) == tag_) {
        working.store(0, std::memory_order_release);
        return false;
      }
    }
    return true;
  }
  void end_work() { group_.own_board().working.value.store(0, std::memory_order_release); }

  [[nodiscard]] std::size_t stride_of(const NodeRound& round) const { return round.input_bytes; }

  /// Copies this rank's inputs of `round` to where the others read them: `all` of them, or what others own and cannot
  /// see.
  void copy_in(const NodeRound& round, std::byte* staging, bool all) {
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      if (owner == rank_ && !all) continue;
      for (const StagedPiece& part : round.slices[static_cast<std::size_t>(owner)]) {
        const HostItem& item = items_[part.piece.item];
        const std::size_t bytes = static_cast<std::size_t>(part.piece.end - part.piece.begin) * size_of(item.dtype);
        for (std::size_t i = 0; i < item.inputs.size(); ++i) {
          if (!all && own_.input(part.piece.item, i) != NodeAddress::none) continue;
          std::memcpy(staging + i * stride_of(round) + part.input_offset,
                      at(static_cast<const std::byte*>(item.inputs[i]), part.piece.begin, item.dtype), bytes);
        }
      }
    }
  }

  /// Everybody's inputs lie on the boards.
  void reduce_flat() {
    const NodeRound& round = staged_rounds_.front();
    for (const auto& slice : round.slices) {
      for (const StagedPiece& part : slice) {
        const HostItem& item = items_[part.piece.item];
        std::size_t next = 0;
        for (int rank = 0; rank < layout_.ranks(); ++rank) {
          if (rank == rank_) {
            for (const void* const input : item.inputs)
              inputs_[next++].data = at(static_cast<const std::byte*>(input), part.piece.begin, item.dtype);
            continue;
          }
          const std::byte* from = group_.board(rank).payloads[slot_].bytes.data() + part.input_offset;
          for (int i = 0; i < layout_.count(rank); ++i, from += stride_of(round)) inputs_[next++].data = from;
        }
        outputs_.clear();
        add_own_outputs(part.piece);
        fold(part.piece);
      }
    }
  }

  void add_own_outputs(const Piece& piece) {
    const HostItem& item = items_[piece.item];
    for (void* const output : item.outputs)
      outputs_.push_back(at(static_cast<std::byte*>(output), piece.begin, result_dtype(descriptor().op, item.dtype)));
  }

  void fold(const Piece& piece) {
    if (outputs_.empty()) return;
    functions_[piece.item](fold_of(piece, inputs_, outputs_), piece.end - piece.begin);
  }

  [[nodiscard]] Fold fold_of(const Piece& piece, std::span<const FoldInput> inputs,
                             std::span<void* const> outputs) const {
    return {.op = descriptor().op,
            .dtype = items_[piece.item].dtype,
            .inputs = inputs,
            .merges = merges_,
            .outputs = outputs,
            .result = FoldResult::finished,
            .replicas = layout_.replicas()};
  }

  /// Lines that were just read are in the cache: to write them past it would cost more.
  [[nodiscard]] static bool is_out_of_place(std::span<const FoldInput> inputs, std::span<void* const> outputs) {
    return std::none_of(outputs.begin(), outputs.end(), [&](const void* output) {
      return std::any_of(inputs.begin(), inputs.end(), [&](const FoldInput& input) { return input.data == output; });
    });
  }

  /// Looks up the others' buffers. Whether anything has changed since the last time.
  bool look_up_peers() {
    bool has_changed = false;
    for (const int rank : others_) {
      PeerTable& peer = peers_[static_cast<std::size_t>(rank)];
      const Arrival& arrival = arrival_of(rank);
      if (peer.id() == arrival.table_id) continue;
      peer.read(group_, rank, static_cast<NodeAddress>(arrival.table), arrival.table_id, items_, layout_.count(rank),
                descriptor().op);
      has_changed = true;
    }
    return has_changed;
  }

  void reduce_direct() {
    if (look_up_peers() || !is_direct_prepared_) prepare_direct();
    for (const PreparedFold& prepared : direct_) prepared.function(prepared.fold, prepared.count);
  }

  /// Writes down the folds of this rank's slice, so that a call repeated does nothing but them.
  void prepare_direct() {
    if (!direct_round_)
      direct_round_ = std::move(cut_rounds(items_, descriptor().op, layout_.ranks(), no_limit).front());
    const auto& slice = direct_round_->slices[static_cast<std::size_t>(rank_)];
    const auto replicas = static_cast<std::size_t>(layout_.replicas());
    direct_.clear();
    direct_inputs_.clear();
    direct_outputs_.clear();
    std::vector<std::size_t> ends;
    for (const StagedPiece& part : slice) {
      const Piece& piece = part.piece;
      for (int rank = 0; rank < layout_.ranks(); ++rank) {
        for (int i = 0; i < layout_.count(rank); ++i)
          direct_inputs_.push_back({visible_input(rank, piece, static_cast<std::size_t>(i)), false});
      }
      outputs_.clear();
      add_own_outputs(piece);
      for (const int rank : others_) add_visible_outputs(rank, piece);
      direct_outputs_.insert(direct_outputs_.end(), outputs_.begin(), outputs_.end());
      ends.push_back(direct_outputs_.size());
    }
    std::size_t begin = 0;
    for (std::size_t k = 0; k < slice.size(); ++k) {
      const auto outputs = std::span(direct_outputs_).subspan(begin, ends[k] - begin);
      begin = ends[k];
      if (outputs.empty()) continue;
      const auto inputs = std::span(direct_inputs_).subspan(k * replicas, replicas);
      const Piece& piece = slice[k].piece;
      direct_.push_back({functions_[piece.item], fold_of(piece, inputs, outputs), piece.end - piece.begin});
      direct_.back().fold.stream = leaves_caches_ && is_out_of_place(inputs, outputs);
    }
    is_direct_prepared_ = true;
  }

  /// Where replica `i` of `rank` has `piece`; null when it lies in staging memory.
  [[nodiscard]] const std::byte* visible_input(int rank, const Piece& piece, std::size_t i) const {
    const DType dtype = items_[piece.item].dtype;
    const auto* const base = rank == rank_ ? static_cast<const std::byte*>(items_[piece.item].inputs[i])
                                           : peers_[static_cast<std::size_t>(rank)].input(piece.item, i);
    return base == nullptr ? nullptr : at(base, piece.begin, dtype);
  }

  void add_visible_outputs(int rank, const Piece& piece) {
    const DType dtype = result_dtype(descriptor().op, items_[piece.item].dtype);
    for (std::byte* const output : peers_[static_cast<std::size_t>(rank)].outputs(piece.item)) {
      if (output != nullptr) outputs_.push_back(at(output, piece.begin, dtype));
    }
  }

  /// Bytes that `rank` stages in one round, at most.
  [[nodiscard]] std::size_t staging_stride(int rank) const {
    return most_round_bytes_ * static_cast<std::size_t>(layout_.count(rank));
  }
  [[nodiscard]] std::byte* staging_of_round(std::size_t round) const {
    return group_.staging().inputs.data() + (round % 2) * staging_stride(rank_);
  }

  /// Where the staged inputs of `rank` begin in this round.
  [[nodiscard]] const std::byte* staging_of(int rank) const {
    if (fits_board_) return group_.board(rank).payloads[slot_].bytes.data();
    const std::size_t stride = staging_stride(rank);
    return group_.resolve(rank, static_cast<NodeAddress>(arrival_of(rank).staging), 2 * stride) + (round_ % 2) * stride;
  }

  void reduce_staged() {
    look_up_peers();
    if (others_staged_) make_results();
    const NodeRound& round = staged_rounds_[round_];
    for (const StagedPiece& part : round.slices[static_cast<std::size_t>(rank_)]) {
      std::size_t next = 0;
      for (int rank = 0; rank < layout_.ranks(); ++rank) {
        for (int i = 0; i < layout_.count(rank); ++i) {
          const std::byte* input = visible_input(rank, part.piece, static_cast<std::size_t>(i));
          if (input == nullptr)
            input = staging_of(rank) + static_cast<std::size_t>(i) * stride_of(round) + part.input_offset;
          inputs_[next++].data = input;
        }
      }
      outputs_.clear();
      add_own_outputs(part.piece);
      for (const int rank : others_) add_visible_outputs(rank, part.piece);
      if (others_staged_) outputs_.push_back(results_of_round(group_.staging().results.data()) + part.result_offset);
      fold(part.piece);
    }
  }

  [[nodiscard]] std::byte* results_of_round(std::byte* results) const {
    return results + (round_ % 2) * most_result_bytes_;
  }

  void make_results() {
    NodeMemory& results = group_.staging().results;
    group_.reserve(results, 2 * most_result_bytes_);
    // before the tick that says that they are there
    group_.own_board().results.value.store(
        static_cast<std::uint64_t>(group_.address_of(results.data(), 2 * most_result_bytes_)),
        std::memory_order_relaxed);
  }

  /// Takes the others' slices of this round to outputs that they could not write.
  void copy_out() {
    if (own_.is_visible()) return;
    const NodeRound& round = staged_rounds_[round_];
    for (const int owner : others_) {
      const auto& slice = round.slices[static_cast<std::size_t>(owner)];
      if (slice.empty()) continue;
      const auto address = static_cast<NodeAddress>(group_.board(owner).results.value.load(std::memory_order_relaxed));
      const std::byte* const results = results_of_round(group_.resolve(owner, address, 2 * most_result_bytes_));
      for (const StagedPiece& part : slice) {
        const HostItem& item = items_[part.piece.item];
        const DType dtype = result_dtype(descriptor().op, item.dtype);
        for (std::size_t i = 0; i < item.outputs.size(); ++i) {
          if (own_.output(part.piece.item, i) != NodeAddress::none) continue;
          std::memcpy(at(static_cast<std::byte*>(item.outputs[i]), part.piece.begin, dtype),
                      results + part.result_offset,
                      static_cast<std::size_t>(part.piece.end - part.piece.begin) * size_of(dtype));
        }
      }
    }
  }

  struct PreparedFold {
    ReduceFunction function;
    Fold fold;
    std::int64_t count;
  };

  const ReplicaLayout layout_;
  NodeGroup& group_;
  const int rank_;
  const std::vector<HostItem> items_;
  const std::vector<std::uint8_t> merges_;
  const std::vector<NodeRound> staged_rounds_;
  std::vector<ReduceFunction> functions_;  // by item
  bool leaves_caches_ = false;             ///< so large that nothing of it stays in the caches
  int most_replicas_ = 0;
  std::size_t most_round_bytes_ = 64;   ///< of one replica in one round
  std::size_t most_result_bytes_ = 64;  ///< of one owner in one round
  bool fits_board_ = false;
  bool always_flat_ = false;
  std::vector<int> others_;
  OwnTable own_;
  std::vector<PeerTable> peers_;

  // this life
  Mode mode_ = Mode::flat;
  bool others_staged_ = false;  ///< whether somebody else takes results from this rank's results
  Phase phase_ = Phase::gather;
  std::uint64_t tag_ = 0;
  std::size_t slot_ = 0;
  std::uint64_t base_clock_ = 0;
  std::size_t round_ = 0;
  std::size_t next_ = 0;  // of others_: all before have come as far as this rank waits for

  // kept from life to life
  std::optional<NodeRound> direct_round_;
  bool is_direct_prepared_ = false;
  std::vector<PreparedFold> direct_;
  std::vector<FoldInput> direct_inputs_;
  std::vector<void*> direct_outputs_;
  std::vector<FoldInput> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace

std::shared_ptr<Operation> make_node_reduce(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                                            std::vector<HostItem> items, const NodeReduceTuning& tuning) {
  return std::make_shared<NodeReduce>(descriptor, layout, group, std::move(items), tuning);
}

}  // namespace lockstep::detail
