// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// scatter and all_to_all. In a scatter, the only source is the input of the root; in an all_to_all, the sources are the
// inputs of all replicas. Every source has one part per replica, and each replica receives its part of every source.
//
// If the ranks of a node share memory, each of them reads its parts in the inputs of the others.
//
// Direct: each rank sends one message to each other rank for which it has parts. It posts all messages at once,
// beginning with the message to the next rank ("spread out" in MPICH). Each rank sends at most P-1 messages with
// (P-1)/P of the bytes of its inputs. Before an all_to_all_v moves data, the ranks compare their numbers of rows, see
// RowAgreement.
//
// By columns: an all_to_all on N nodes, all with the same numbers of ranks and replicas. First, a rank collects what
// all ranks of its node have for the ranks of its column, in their inputs in shared memory; if the ranks of the node
// cannot share memory in this operation, they exchange messages. Then the ranks of each column exchange blocks, see
// ColumnExchange. Each rank sends N-1 messages to other nodes if parts are large, about log N messages if they are
// small.

#include "collectives/call/host_item.hpp"
#include "collectives/engine/row_agreement.hpp"
#include "collectives/engine/transfers.hpp"
#include "collectives/host/column_exchange.hpp"
#include "collectives/host/node_stage.hpp"
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

/// The inputs of `items` as tensors of bytes, which the other ranks of the node read.
std::vector<HostItem> inputs_of(std::span<const HostItem> items) {
  std::vector<HostItem> result;
  for (const HostItem& item : items) {
    HostItem& bytes = result.emplace_back();
    bytes.dtype = DType::u8;
    bytes.shape = Shape{static_cast<std::int64_t>(byte_count(item.input_parts.front().back(), item))};
    bytes.inputs = item.inputs;
  }
  return result;
}

void copy(void* target, const void* source, std::size_t bytes) {
  if (bytes != 0) std::memmove(target, source, bytes);
}

/// Whether some output is also an input.
bool has_input_as_output(const HostItem& item) {
  return std::any_of(item.outputs.begin(), item.outputs.end(), [&](const void* output) {
    return output != nullptr && std::find(item.inputs.begin(), item.inputs.end(), output) != item.inputs.end();
  });
}

/// Larger inputs of all_to_all travel directly: it does not pay for them that the ranks of a node wait for each other.
constexpr std::size_t most_bytes_by_columns = std::size_t{4} << 20;

class PartExchange final : public Operation {
 public:
  PartExchange(const Descriptor& descriptor, const ReplicaLayout& layout, int rank, std::vector<HostItem> items,
               NodeGroup* group, bool is_even)
      : Operation(descriptor),
        layout_(layout),
        rank_(rank),
        items_(std::move(items)),
        is_in_place_(std::any_of(items_.begin(), items_.end(), has_input_as_output)) {
    if (descriptor.traits().rows == Rows::own) agreement_.emplace(layout_, rank_, items_);
    const int members = group == nullptr ? 1 : group->size();
    const std::size_t rank_bytes = is_even && !items_.empty() ? bytes_to(rank_) : 0;
    if (descriptor.traits().is_all_to_all() && !agreement_ && rank_bytes > 0 && layout_.ranks() > members &&
        rank_bytes * static_cast<std::size_t>(layout_.ranks()) <= most_bytes_by_columns) {
      columns_.emplace(layout_.ranks() / members, members, rank_, rank_bytes);
      // the same messages, but a message leaves as soon as it is packed
      if (members == 1 && columns_->is_direct()) columns_.reset();
    }
    if (group == nullptr || group->size() == 1 || agreement_) return;
    // in a scatter, only the node of the root accesses memory of other ranks
    const int root_member = descriptor.root - (rank_ - group->rank());
    if (descriptor.root >= 0 && (root_member < 0 || root_member >= group->size())) return;
    node_items_ = inputs_of(items_);
    std::vector<int> inputs;
    for (int member = 0; member < group->size(); ++member) {
      const PartRange sources = sources_on(rank_ - group->rank() + member);
      inputs.push_back(sources.last - sources.first);
    }
    node_.emplace(*group, node_items_, descriptor.op, std::move(inputs), 0);
  }

  void arrive(std::uint64_t tag, Arrival& arrival) override {
    if (!node_) return;
    node_->arrive(tag, arrival);
    // another rank may read an input only as long as no output overwrites it
    if (is_in_place_) arrival.flags = flag_refused;
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
    if (stage_ == Stage::within_node) {
      if (!transfers_.all_received(transport)) return false;
      take_parts_of_members();
      columns_->post(transport, workspace, transfers_);
      stage_ = Stage::moving;
    }
    if (stage_ == Stage::moving) {
      if (!has_near_parts_) {
        if (!copy_near_parts()) return false;
        if (columns_) columns_->post(transport, workspace, transfers_);
      }
      if (columns_) {
        if (!columns_->advance(transport, workspace, transfers_)) return false;
        deliver_columns();
      }
      if (!transfers_.all_received(transport)) return false;
      for (int source = 0; source < layout_.ranks(); ++source) {
        if (const std::byte* const parts = received_[static_cast<std::size_t>(source)]) deliver(source, parts);
      }
      stage_ = Stage::sending;
    }
    if (!transfers_.all_sent(transport) || (shares_node_ && !node_->have_all_finished())) return false;
    transfers_.release(workspace);
    return true;
  }

  const Failure* failure() const noexcept override { return failure_ ? &*failure_ : nullptr; }
  DataProgress progress(const Transport& transport) const noexcept override {
    DataProgress progress = Operation::progress(transport);
    if (shares_node_) progress.count += node_->steps_of_all();
    return progress;
  }
  std::vector<int> awaited_ranks() const override {
    std::vector<int> ranks = transfers_.awaited_ranks();
    if (shares_node_ && ranks.empty()) {
      for (const int member : node_->unfinished()) ranks.push_back(rank_of(member));
    }
    return ranks;
  }
  bool abandon(Transport& transport) noexcept override {
    if (node_) node_->abandon(false);
    transfers_.abandon(transport);
    return false;
  }
  bool survives_faults() const noexcept override { return true; }

 private:
  enum class Stage : std::uint8_t { agreeing, within_node, moving, sending };

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

  [[nodiscard]] int rank_of(int member) const { return rank_ - node_->member() + member; }
  /// Whether `rank` is on this rank's node, and the ranks of this node share memory.
  [[nodiscard]] bool is_near(int rank) const {
    const int member = shares_node_ ? rank - rank_ + node_->member() : -1;
    return member >= 0 && member < node_->members();
  }

  void move_parts(Transport& transport, Workspace& workspace) {
    stage_ = Stage::moving;
    shares_node_ = node_ && node_->start();
    const int ranks = layout_.ranks();
    received_.resize(static_cast<std::size_t>(ranks));
    if (columns_) return start_columns(transport, workspace);
    for (int step = 1; step < ranks; ++step) {
      const int source = (rank_ + ranks - step) % ranks;
      const std::size_t bytes = bytes_from(source);
      if (bytes == 0 || is_near(source)) continue;
      received_[static_cast<std::size_t>(source)] = transfers_.receive(transport, workspace, source, bytes);
    }
    for (int step = 1; step < ranks; ++step) {
      const int target = (rank_ + step) % ranks;
      if (bytes_to(target) != 0 && !is_near(target)) transfers_.send(transport, target, pack(workspace, target));
    }
    move_own_parts(workspace);
    has_near_parts_ = !shares_node_;
  }

  /// Called when all messages of this rank are packed, so that its inputs may be overwritten.
  void move_own_parts(Workspace& workspace) {
    if (is_in_place_) {
      deliver(rank_, pack(workspace, rank_).data());
    } else {
      copy_own_parts();
    }
  }

  /// Begins the exchange by columns: if the ranks of this node share memory, copy_near_parts goes on.
  void start_columns(Transport& transport, Workspace& workspace) {
    columns_->start(workspace, transfers_);
    if (!shares_node_) {
      for (int distance = 1; distance < columns_->nodes(); ++distance)
        pack_to(columns_->part_to(distance, columns_->column()), columns_->rank_at(distance, columns_->column()));
      for (int step = 1; step < columns_->members(); ++step) {
        const int source = near_rank(columns_->members() - step);
        received_[static_cast<std::size_t>(source)] =
            transfers_.receive(transport, workspace, source, bytes_for_column());
      }
      for (int step = 1; step < columns_->members(); ++step) {
        const int target = near_rank(step);
        const std::span<std::byte> message = transfers_.new_buffer(workspace, bytes_for_column());
        for (int distance = 0; distance < columns_->nodes(); ++distance) {
          pack_to(message.data() + static_cast<std::size_t>(distance) * columns_->rank_bytes(),
                  columns_->rank_at(distance, target % columns_->members()));
        }
        transfers_.send(transport, target, message);
      }
    }
    move_own_parts(workspace);
    has_near_parts_ = !shares_node_;
    if (!shares_node_) stage_ = Stage::within_node;
  }

  /// The rank of this node that is `step` further than this rank.
  [[nodiscard]] int near_rank(int step) const {
    return columns_->rank_at(0, (columns_->column() + step) % columns_->members());
  }
  /// What one rank has for a column.
  [[nodiscard]] std::size_t bytes_for_column() const {
    return static_cast<std::size_t>(columns_->nodes()) * columns_->rank_bytes();
  }

  /// Takes the messages of the other ranks of this node.
  void take_parts_of_members() {
    for (int step = 1; step < columns_->members(); ++step) {
      const int source = near_rank(step);
      const std::byte* const parts = std::exchange(received_[static_cast<std::size_t>(source)], nullptr);
      deliver(source, parts);
      for (int distance = 1; distance < columns_->nodes(); ++distance) {
        copy(columns_->part_to(distance, source % columns_->members()),
             parts + static_cast<std::size_t>(distance) * columns_->rank_bytes(), columns_->rank_bytes());
      }
    }
  }

  /// Copies the parts for this column from the inputs of the ranks of this node; stops when NodeStage::goes_on returns
  /// false.
  void collect_column() {
    for (int member = 0; member < columns_->members(); ++member) {
      const bool is_own = member == columns_->column();
      for (int distance = 1; distance < columns_->nodes(); ++distance) {
        const PartRange targets = targets_on(columns_->rank_at(distance, columns_->column()));
        std::byte* next = columns_->part_to(distance, member);
        if (is_own) {
          pack_to(next, columns_->rank_at(distance, member));
          continue;
        }
        for (std::size_t k = 0; k < items_.size(); ++k) {
          const PartBegins& begins = items_[k].input_parts.front();  // the same for all inputs
          const std::size_t bytes = byte_count(row_count(begins, targets), items_[k]);
          for (std::size_t i = 0; i < items_[k].inputs.size(); ++i) {
            if (!node_->goes_on(2 * bytes)) return;
            copy(next, node_->input(member, k, i) + byte_count(begin_of(begins, targets.first), items_[k]), bytes);
            next += bytes;
          }
        }
      }
    }
  }

  void deliver_columns() const {
    for (int distance = 1; distance < columns_->nodes(); ++distance) {
      for (int member = 0; member < columns_->members(); ++member)
        deliver(columns_->rank_at(-distance, member), columns_->part_from(distance, member));
    }
  }

  /// Copies the parts in the inputs of the other ranks of the node. Returns false if one of these ranks has abandoned
  /// the operation.
  bool copy_near_parts() {
    if (!node_->begin_work()) return false;
    for (int step = 1; step < node_->members(); ++step) copy_parts_of((node_->member() + step) % node_->members());
    if (columns_) collect_column();
    if (!node_->end_work()) return false;
    node_->finish();
    has_near_parts_ = true;
    return true;
  }

  /// Copies the parts in the inputs of `member`; stops when NodeStage::goes_on returns false.
  void copy_parts_of(int member) {
    const PartRange sources = sources_on(rank_of(member));
    for (std::size_t k = 0; k < items_.size(); ++k) {
      const HostItem& item = items_[k];
      const PartBegins& begins = item.input_parts.front();  // the same for all inputs
      for (int part = sources.first; part < sources.last; ++part) {
        const std::byte* const input = node_->input(member, k, static_cast<std::size_t>(part - sources.first));
        for (std::size_t j = 0; j < item.outputs.size(); ++j) {
          const int target = layout_.first(rank_) + static_cast<int>(j);
          const std::size_t bytes = byte_count(row_count(begins, {target, target + 1}), item);
          std::byte* const output =
              at(item.outputs[j], begin_of(item.output_parts[j], part) * item.row_elements, item.dtype);
          const std::byte* const source = input + byte_count(begin_of(begins, target), item);
          constexpr std::size_t most = NodeWork::turn_bytes / 2;
          for (std::size_t begin = 0; begin < bytes; begin += most) {
            const std::size_t turn = std::min(most, bytes - begin);
            if (!node_->goes_on(2 * turn)) return;
            copy(output + begin, source + begin, turn);
          }
        }
      }
    }
  }

  /// Packs the parts for the rank `target`, ordered by item, then by sending replica, then by receiving replica.
  [[nodiscard]] std::span<const std::byte> pack(Workspace& workspace, int target) {
    const std::span<std::byte> message = transfers_.new_buffer(workspace, bytes_to(target));
    pack_to(message.data(), target);
    return message;
  }
  void pack_to(std::byte* next, int target) const {
    const PartRange targets = targets_on(target);
    for (const HostItem& item : items_) {
      for (std::size_t i = 0; i < item.inputs.size(); ++i) {
        const PartBegins& begins = item.input_parts[i];
        const std::size_t bytes = byte_count(row_count(begins, targets), item);
        copy(next, at(item.inputs[i], begin_of(begins, targets.first) * item.row_elements, item.dtype), bytes);
        next += bytes;
      }
    }
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
  const bool is_in_place_;
  std::vector<HostItem> node_items_;
  std::optional<NodeStage> node_;
  bool shares_node_ = false;               // whether the ranks of the node read each other's inputs
  bool has_near_parts_ = false;            // whether this rank has read the inputs of the other ranks of its node
  std::optional<ColumnExchange> columns_;  // set if the exchange is by columns
  std::optional<RowAgreement> agreement_;  // set if each rank knows only its own numbers of rows
  std::optional<Failure> failure_;
  Stage stage_ = Stage::moving;
  Transfers transfers_;
  std::vector<const std::byte*> received_;  // the parts from each rank, by rank; null if there are none
};

}  // namespace

std::shared_ptr<Operation> make_part_exchange(const Descriptor& descriptor, const ReplicaLayout& layout, int rank,
                                              std::vector<HostItem> items, NodeGroup* group, bool is_even) {
  return std::make_shared<PartExchange>(descriptor, layout, rank, std::move(items), group, is_even);
}

}  // namespace lockstep::detail
