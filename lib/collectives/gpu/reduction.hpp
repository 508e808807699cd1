// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What all reductions on GPUs have in common: bundles, and where each lies on each GPU.

#pragma once

#include "collectives/gpu/bundles.hpp"
#include "collectives/gpu/gpu_operation.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

class GpuReduction : public GpuOperation {
 protected:
  GpuReduction(const Descriptor& descriptor, std::shared_ptr<GpuGroup> group, std::vector<HostItem> items,
               std::vector<Bundle> bundles);

  /// One bundle on one GPU.
  struct Part {
    std::vector<const void*> inputs;  ///< of the GPU's replicas, in id order
    std::vector<void*> outputs;       ///< each gets the result; none where nobody wants it there
    std::vector<cuda::CopyRegion> unpack;
  };

  [[nodiscard]] const std::vector<Bundle>& bundles() const noexcept { return bundles_; }
  [[nodiscard]] Part& part(std::size_t lane, std::size_t bundle) { return parts_[lane][bundle]; }
  [[nodiscard]] DType accumulation_of(const Bundle& bundle) const {
    return accumulation_dtype(descriptor().op, bundle.dtype);
  }
  [[nodiscard]] DType result_of(const Bundle& bundle) const { return result_dtype(descriptor().op, bundle.dtype); }
  [[nodiscard]] static std::size_t bytes_of(std::int64_t count, DType dtype) {
    return static_cast<std::size_t>(count) * size_of(dtype);
  }

  /// Settles the parts, and copies what is packed to where its part is.
  void pack();
  /// Copies the results of what is packed to where they are wanted.
  void unpack();

 private:
  void place(std::size_t lane, const Bundle& bundle, Part& part) const;
  void place_packed(std::size_t lane, const Bundle& bundle, Part& part, std::vector<cuda::CopyRegion>& pieces);

  const std::vector<Bundle> bundles_;
  std::vector<std::vector<Part>> parts_;  // by lane, by bundle
};

}  // namespace lockstep::detail
