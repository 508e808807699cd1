// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/hash_recorder.hpp"

#include "base/log.hpp"
#include "base/xxh64.hpp"
#include "collectives/call/descriptor.hpp"
#include "transport/transport.hpp"

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

std::string text_of(const ConstTensorView& view) {
  return fmt::format("{} {}", to_string(view.dtype), to_string(view.shape));
}

std::string_view text_of(Place place) {
  switch (place) {
    case Place::none: return "none";
    case Place::root: return "root";
    case Place::ranks: return "ranks";
    case Place::replicas: return "replicas";
  }
  return "none";
}

/// The elements of a tensor on a GPU are copied to the host, in the order of the stream of the device.
std::optional<std::uint64_t> hash_of(const ConstTensorView& view) noexcept {
  try {
    if (view.device.kind == DeviceKind::cpu)
      return xxh64({static_cast<const std::byte*>(view.data), view.byte_count()});
    std::vector<std::byte> elements(view.byte_count());
    lockstep::copy(TensorView{elements.data(), view.dtype, view.shape, Device{}}, view);
    return xxh64(elements);
  } catch (const std::exception& error) {
    log_warning("LOCKSTEP_HASH_LOG: cannot read a tensor: {}", error.what());
    return std::nullopt;
  }
}

HashedCall description_of(const Call& call, Descriptor descriptor, std::span<const Item> items) {
  HashedCall described;
  described.kind = call.name();
  if (call.traits().reduces()) described.op = to_string(call.op);
  described.name = descriptor.name.data();
  described.file = descriptor.file.data();
  described.line = std::exchange(descriptor.line, 0);
  described.text = describe(descriptor);
  described.root = call.root;
  described.inputs_of = text_of(call.traits().inputs);
  described.outputs_of = text_of(call.traits().outputs);
  for (const Item& item : items) {
    HashedCall::Item& texts = described.items.emplace_back();
    for (const ConstTensorView& view : item.inputs) texts.inputs.push_back(text_of(view));
    for (const TensorView& view : item.outputs) texts.outputs.push_back(text_of(view));
  }
  return described;
}

}  // namespace

/// Writes an operation that ends.
class HashRecorder::End final : public EndObserver {
 public:
  End(std::shared_ptr<HashLog> log, std::uint64_t group, const Operation& operation, const Call& call,
      std::span<const Item> items)
      : log_(std::move(log)), group_(group) {
    hashed_.call = log_->number_of(description_of(call, operation.descriptor(), items));
    for (const Item& item : items) {
      for (const ConstTensorView& view : item.inputs) hashed_.inputs.push_back(hash_of(view));
      outputs_.insert(outputs_.end(), item.outputs.begin(), item.outputs.end());
    }
  }

  void on_end(std::uint64_t epoch, std::int64_t sequence, const Error* error) noexcept override {
    try {
      hashed_.epoch = epoch;
      hashed_.sequence = sequence;
      if (error != nullptr) {
        hashed_.failure = to_string(error->code());
      } else {
        for (const ConstTensorView& view : outputs_) hashed_.outputs.push_back(hash_of(view));
      }
      log_->add(group_, hashed_);
    } catch (const std::exception& shortage) {
      log_warning("LOCKSTEP_HASH_LOG: an operation is missing: {}", shortage.what());
    }
  }

 private:
  const std::shared_ptr<HashLog> log_;
  const std::uint64_t group_;
  std::vector<ConstTensorView> outputs_;
  HashedOperation hashed_;
};

HashRecorder::HashRecorder(std::shared_ptr<HashLog> log, const std::string& name, const ReplicaLayout& layout,
                           const Transport& transport)
    : log_(std::move(log)), group_([&] {
        const GroupIdentity identity = transport.identity();
        HashedGroup group{name, identity.number, identity.job_ranks, transport.rank(), {}};
        for (int rank = 0; rank < layout.ranks(); ++rank) group.replicas.push_back(layout.count(rank));
        return log_->number_of(group);
      }()) {}

void HashRecorder::attach(Operation& operation, const Call& call, std::span<const Item> items) const noexcept {
  try {
    operation.observe_end(std::make_unique<End>(log_, group_, operation, call, items));
  } catch (const std::exception& shortage) {
    log_warning("LOCKSTEP_HASH_LOG: an operation is missing: {}", shortage.what());
  }
}

}  // namespace lockstep::detail
