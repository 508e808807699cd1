// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// scatter and all_to_all. In a scatter, the only source is the input of the root; in an all_to_all, the sources are the
// inputs of all replicas. Every source has one part per replica, and each replica receives its part of every source.
//
// Each rank sends one message to each other rank for which it has parts. It posts all messages at once, beginning with
// the message to the next rank. This is the direct algorithm ("spread out" in MPICH). Each rank sends at most P-1
// messages with (P-1)/P of the bytes of its inputs. Before an all_to_all_v moves data, the ranks compare their numbers
// of rows, see RowAgreement.

#include "collectives/call/host_item.hpp"
#include "collectives/engine/row_agreement.hpp"
#include "collectives/engine/transfers.hpp"
#include "collectives/host/operations.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace lockstep::detail {
namespace {

/// The consecutive parts [first, last).
struct PartRange {
  int first = 0;
  int last = 0;
};

std::int64_t begin_of(const PartBegins& begins, int part) { return begins[static_cast<std::size_t>(part)]; }

std::int64_t row_count(const PartBegins& begins, PartRange parts) {
  return begin_of(begins, parts.last) - begin_of(begins, parts.first);
}

std::size_t byte_count(std::int64_t rows, const HostItem& item) {
  return static_cast<std::size_t>(rows * item.row_elements) * size_of(item.dtype);
}

void copy(void* target, const void* source, std::size_t bytes) {
  if (bytes != 0) std::memmove(target, source, bytes);
}

/// Whether some output is also an input.
bool is_in_place(const HostItem& item) {
  return std::any_of(item.outputs.begin(), item.outputs.end(), [&](const void* output) {
    return output != nullptr && std::find(item.inputs.begin(), item.inputs.end(), output) != item.inputs.end();
  });
}

class PartExchange final : public Operation {
 public:
  PartExchange(const Descriptor& descriptor, const ReplicaLayout& layout, int rank, std::vector<HostItem> items)
      : Operation(descriptor), layout_(layout), rank_(rank), items_(std::move(items)) {
    if (descriptor.traits().rows == Rows::own) agreement_.emplace(layout_, rank_, items_);
  }

  void start(Transport& transport, Workspace& workspace) override {
    if (agreement_) {
      stage_ = Stage::agreeing;
      agreement_->start(transport, workspace, transfers_);
    } else {
      move_parts(transport, workspace);
    }
  }

  bool advance(Transport& transport, Workspace& workspace) override {
    if (stage_ == Stage::agreeing) {
      if (!agreement_->advance(transport, workspace, transfers_)) return false;
      failure_ = agreement_->failure();
      if (failure_) {
        stage_ = Stage::sending;
      } else {
        move_parts(transport, workspace);
      }
    }
    if (stage_ == Stage::moving) {
      if (!transfers_.all_received(transport)) return false;
      for (int source = 0; source < layout_.ranks(); ++source) {
        if (const std::byte* const parts = received_[static_cast<std::size_t>(source)]) deliver(source, parts);
      }
      stage_ = Stage::sending;
    }
    if (!transfers_.all_sent(transport)) return false;
    transfers_.release(workspace);
    return true;
  }

  const Failure* failure() const noexcept override { return failure_ ? &*failure_ : nullptr; }
  std::vector<int> awaited_ranks() const override { return transfers_.awaited_ranks(); }
  bool abandon(Transport& transport) noexcept override {
    transfers_.abandon(transport);
    return false;
  }
  bool survives_faults() const noexcept override { return true; }

 private:
  enum class Stage : std::uint8_t { agreeing, moving, sending };

  /// The parts of an input that are for `rank`.
  [[nodiscard]] PartRange targets_on(int rank) const { return {layout_.first(rank), layout_.first(rank + 1)}; }
  /// The parts of an output that come from `rank`.
  [[nodiscard]] PartRange sources_on(int rank) const {
    if (descriptor().root < 0) return {layout_.first(rank), layout_.first(rank + 1)};
    return {0, rank == descriptor().root ? 1 : 0};
  }

  [[nodiscard]] std::size_t bytes_to(int rank) const {
    std::size_t bytes = 0;
    for (const HostItem& item : items_) {
      for (std::size_t i = 0; i < item.inputs.size(); ++i)
        bytes += byte_count(row_count(item.input_parts[i], targets_on(rank)), item);
    }
    return bytes;
  }
  [[nodiscard]] std::size_t bytes_from(int rank) const {
    std::size_t bytes = 0;
    for (const HostItem& item : items_) {
      for (const PartBegins& begins : item.output_parts) bytes += byte_count(row_count(begins, sources_on(rank)), item);
    }
    return bytes;
  }

  void move_parts(Transport& transport, Workspace& workspace) {
    stage_ = Stage::moving;
    const int ranks = layout_.ranks();
    received_.resize(static_cast<std::size_t>(ranks));
    for (int step = 1; step < ranks; ++step) {
      const int source = (rank_ + ranks - step) % ranks;
      const std::size_t bytes = bytes_from(source);
      if (bytes == 0) continue;
      received_[static_cast<std::size_t>(source)] = transfers_.receive(transport, workspace, source, bytes);
    }
    for (int step = 1; step < ranks; ++step) {
      const int target = (rank_ + step) % ranks;
      if (bytes_to(target) != 0) transfers_.send(transport, target, pack(workspace, target));
    }
    // all messages are packed, so inputs may be overwritten from here on
    if (std::any_of(items_.begin(), items_.end(), is_in_place)) {
      deliver(rank_, pack(workspace, rank_).data());
    } else {
      copy_own_parts();
    }
  }

  /// Packs the parts for the rank `target`, ordered by item, then by sending replica, then by receiving replica.
  [[nodiscard]] std::span<const std::byte> pack(Workspace& workspace, int target) {
    const std::span<std::byte> message = transfers_.new_buffer(workspace, bytes_to(target));
    std::byte* next = message.data();
    const PartRange targets = targets_on(target);
    for (const HostItem& item : items_) {
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        const PartBegins& begins = item.input_parts[i];
        const std::size_t bytes = byte_count(row_count(begins, targets), item);
        copy(next, at(item.inputs[i], begin_of(begins, targets.first) * item.row_elements, item.dtype), bytes);
        next += bytes;
      }
    }
    return message;
  }

  /// Writes to the outputs the parts at `next`, which the rank `source` has packed for this rank.
  void deliver(int source, const std::byte* next) const {
    const PartRange sources = sources_on(source);
    for (const HostItem& item : items_) {
      for (int part = sources.first; part < sources.last; ++part) {
        for (std::size_t j = 0; j < item.outputs.size(); ++j) {
          const PartBegins& begins = item.output_parts[j];
          const std::size_t bytes = byte_count(row_count(begins, {part, part + 1}), item);
          copy(at(item.outputs[j], begin_of(begins, part) * item.row_elements, item.dtype), next, bytes);
          next += bytes;
        }
      }
    }
  }

  void copy_own_parts() const {
    const int first_target = layout_.first(rank_);
    const int first_source = sources_on(rank_).first;
    for (const HostItem& item : items_) {
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        for (std::size_t j = 0; j < item.outputs.size(); ++j) {
          const int target = first_target + static_cast<int>(j);
          const int source = first_source + static_cast<int>(i);
          copy(at(item.outputs[j], begin_of(item.output_parts[j], source) * item.row_elements, item.dtype),
               at(item.inputs[i], begin_of(item.input_parts[i], target) * item.row_elements, item.dtype),
               byte_count(row_count(item.input_parts[i], {target, target + 1}), item));
        }
      }
    }
  }

  const ReplicaLayout layout_;
  int rank_;
  std::vector<HostItem> items_;
  std::optional<RowAgreement> agreement_;  // set if each rank knows only its own numbers of rows
  std::optional<Failure> failure_;
  Stage stage_ = Stage::moving;
  Transfers transfers_;
  std::vector<const std::byte*> received_;  // the parts from each rank, by rank; null if there are none
};

}  // namespace

std::shared_ptr<Operation> make_part_exchange(const Descriptor& descriptor, const ReplicaLayout& layout, int rank,
                                              std::vector<HostItem> items) {
  return std::make_shared<PartExchange>(descriptor, layout, rank, std::move(items));
}

}  // namespace lockstep::detail
