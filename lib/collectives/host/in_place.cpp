// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls in place: the input of a replica is its part of the result of a gather, or its output is its part of the input
// of a scatter or reduce_scatter. The operation gets a private tensor instead of that part, so that its inputs and
// outputs are apart on every path of the data. Cost: memory and one copy of the part.

#include <lockstep/device/arena.hpp>

#include "collectives/host/operations.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace lockstep::detail {
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto* const first = static_cast<const std::byte*>(a);
  const auto* const second = static_cast<const std::byte*>(b);
  const std::less<> is_before;
  return is_before(first, second + b_bytes) && is_before(second, first + a_bytes);
}

/// The parts of one item that overlap the tensor of which they are a part.
struct SharedParts {
  std::vector<std::size_t> indices;  ///< of the parts among the inputs or outputs
  std::vector<std::size_t> bytes;    ///< by index in `indices`
};

SharedParts shared_parts(const Call& call, const ReplicaLayout& layout, int rank, const HostItem& item) {
  const Traits& kind = call.traits();
  SharedParts shared;
  if (!kind.has_own_parts() || item.is_on_gpus()) return shared;
  if (kind.reduces() && result_dtype(call.op, item.dtype) != item.dtype) return shared;  // refused if they overlap
  const std::size_t whole = static_cast<std::size_t>(item.whole_count(kind, layout.replicas())) * size_of(item.dtype);
  const std::size_t parts = kind.gathers() ? item.inputs.size() : item.outputs.size();
  const std::size_t wholes = kind.gathers() ? item.outputs.size() : item.inputs.size();
  for (std::size_t i = 0; i < parts; ++i) {
    const ElementRange elements = item.part_of(kind, layout.first(rank) + static_cast<int>(i), layout.replicas());
    const std::size_t bytes = static_cast<std::size_t>(elements.size()) * size_of(item.dtype);
    if (bytes == whole) continue;  // the only part: the same view
    const void* const part = kind.gathers() ? item.inputs[i] : item.outputs[i];
    for (std::size_t j = 0; j < wholes; ++j) {
      if (!overlap(part, bytes, kind.gathers() ? item.outputs[j] : item.inputs[j], whole)) continue;
      shared.indices.push_back(i);
      shared.bytes.push_back(bytes);
      break;
    }
  }
  return shared;
}

/// Private memory for parts, which the other ranks of the node can map.
class PrivateParts {
 public:
  PrivateParts() = default;
  PrivateParts(const PrivateParts&) = delete;
  PrivateParts& operator=(const PrivateParts&) = delete;
  ~PrivateParts() {
    if (is_leaked_) return;
    for (const Part& part : parts_) memory_->deallocate(part.copy, part.bytes);
  }

  /// Replaces the parts of `item` that are shared: inputs by copies, outputs by memory for results.
  void replace(const SharedParts& shared, bool are_inputs, HostItem& item) {
    parts_.reserve(parts_.size() + shared.indices.size());
    for (std::size_t k = 0; k < shared.indices.size(); ++k) {
      const std::size_t i = shared.indices[k];
      auto* const copy = static_cast<std::byte*>(memory_->allocate(shared.bytes[k]));
      parts_.push_back({copy, are_inputs ? nullptr : item.outputs[i], shared.bytes[k]});
      if (are_inputs) {
        std::memcpy(copy, item.inputs[i], shared.bytes[k]);
        item.inputs[i] = copy;
      } else {
        item.outputs[i] = copy;
      }
    }
  }
  /// Copies the results to the outputs of the caller.
  void deliver() const {
    for (const Part& part : parts_) {
      if (part.output != nullptr) std::memcpy(part.output, part.copy, part.bytes);
    }
  }
  void leak() noexcept { is_leaked_ = true; }

 private:
  struct Part {
    std::byte* copy;
    void* output;  ///< null for an input
    std::size_t bytes;
  };

  std::shared_ptr<MemoryResource> memory_ = arena_memory_resource();
  std::vector<Part> parts_;
  bool is_leaked_ = false;
};

class InPlace final : public Operation {
 public:
  InPlace(std::shared_ptr<Operation> inner, std::unique_ptr<PrivateParts> parts)
      : Operation(inner->descriptor()), parts_(std::move(parts)), inner_(std::move(inner)) {}

  void arrive(std::uint64_t tag, Arrival& arrival) override { inner_->arrive(tag, arrival); }
  CarriedData* carried() noexcept override { return inner_->carried(); }
  void start(Transport& transport, Workspace& workspace) override { inner_->start(transport, workspace); }
  bool advance(Transport& transport, Workspace& workspace) override {
    if (!inner_->advance(transport, workspace)) return false;
    if (inner_->failure() == nullptr) parts_->deliver();
    return true;
  }
  const Failure* failure() const noexcept override { return inner_->failure(); }
  DataProgress progress(const Transport& transport) const noexcept override { return inner_->progress(transport); }
  std::vector<int> awaited_ranks() const override { return inner_->awaited_ranks(); }
  std::string_view awaited() const override { return inner_->awaited(); }
  bool abandon(Transport& transport) noexcept override {
    const bool may_be_accessed = inner_->abandon(transport);
    if (may_be_accessed) parts_->leak();
    return may_be_accessed;
  }
  bool survives_faults() const noexcept override { return inner_->survives_faults(); }
  bool uses_transfers() const noexcept override { return inner_->uses_transfers(); }

 private:
  std::unique_ptr<PrivateParts> parts_;
  std::shared_ptr<Operation> inner_;  // uses parts_
};

}  // namespace

bool is_in_place(const Call& call, const ReplicaLayout& layout, int rank, std::span<const HostItem> items) {
  return std::any_of(items.begin(), items.end(),
                     [&](const HostItem& item) { return !shared_parts(call, layout, rank, item).indices.empty(); });
}

std::shared_ptr<Operation> make_in_place(const Call& call, const ReplicaLayout& layout, int rank,
                                         std::vector<HostItem> items,
                                         const std::function<std::shared_ptr<Operation>(std::vector<HostItem>)>& make) {
  auto parts = std::make_unique<PrivateParts>();
  for (HostItem& item : items) parts->replace(shared_parts(call, layout, rank, item), call.traits().gathers(), item);
  return std::make_shared<InPlace>(make(std::move(items)), std::move(parts));
}

}  // namespace lockstep::detail
