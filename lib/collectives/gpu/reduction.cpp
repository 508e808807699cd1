// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/reduction.hpp"

#include "collectives/call/host_item.hpp"

#include <utility>

namespace lockstep::detail {

GpuReduction::GpuReduction(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items,
                           std::vector<Bundle> bundles)
    : GpuOperation(descriptor, std::move(group), std::move(items)), bundles_(std::move(bundles)) {}

void GpuReduction::place(std::size_t lane, const Bundle& bundle, Part& part) const {
  const HostItem& item = items()[bundle.members.front().item];
  for (const int replica : leader_of(lane).replicas) part.inputs.push_back(input_of(item, replica));
  part.outputs = outputs_on(lane, item);
}

void GpuReduction::place_packed(std::size_t lane, const Bundle& bundle, Part& part,
                                std::vector<cuda::CopyPiece>& pieces) {
  for (const int replica : leader_of(lane).replicas) {
    void* const packed = scratch(lane, bytes_of(bundle.count, bundle.dtype));
    part.inputs.push_back(packed);
    for (const BundleMember& member : bundle.members) {
      const HostItem& item = items()[member.item];
      pieces.push_back(
          {input_of(item, replica), at(packed, member.begin, bundle.dtype), bytes_of(item.count(), bundle.dtype)});
    }
  }
  const DType dtype = result_of(bundle);
  void* result = nullptr;
  for (const BundleMember& member : bundle.members) {
    const HostItem& item = items()[member.item];
    for (void* const output : outputs_on(lane, item)) {
      if (result == nullptr) result = scratch(lane, bytes_of(bundle.count, dtype));
      part.unpack.push_back({at(result, member.begin, dtype), output, bytes_of(item.count(), dtype)});
    }
  }
  if (result != nullptr) part.outputs.push_back(result);
}

void GpuReduction::pack() {
  parts_.resize(lanes());
  for (std::size_t lane = 0; lane < lanes(); ++lane) {
    std::vector<cuda::CopyPiece> pieces;
    for (const Bundle& bundle : bundles_) {
      Part& part = parts_[lane].emplace_back();
      if (bundle.is_packed()) {
        place_packed(lane, bundle, part, pieces);
      } else {
        place(lane, bundle, part);
      }
    }
    copy(lane, pieces);
  }
}

void GpuReduction::unpack() {
  for (std::size_t lane = 0; lane < lanes(); ++lane) {
    std::vector<cuda::CopyPiece> pieces;
    for (const Part& part : parts_[lane]) pieces.insert(pieces.end(), part.unpack.begin(), part.unpack.end());
    copy(lane, pieces);
  }
}

}  // namespace lockstep::detail
