// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL as a program without lockstep uses it. A build without CUDA or NCCL's header refuses it with an error.

#pragma once

#include "bench/perf/buffers.hpp"
#include "bench/perf/case.hpp"

#include <memory>
#include <span>

namespace perf {

/// The NCCL communicators of this rank's replicas, one for each GPU. Pinned.
class NcclGroup {
 public:
  NcclGroup() = default;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  virtual ~NcclGroup() = default;

  /// Calls ncclAllReduce on `count` elements of each replica and waits for it. NCCL must support `dtype` and `op`.
  /// Collective over the job. Throws std::runtime_error with NCCL's text.
  virtual void all_reduce(std::span<const Region> inputs, std::span<const Region> outputs, std::int64_t count,
                          lockstep::DType dtype, lockstep::ReduceOp op) = 0;
};

/// Local. Throws OptionError with the reason if NCCL is unavailable.
void require_nccl();
/// Collective over the job, after require_nccl on all ranks. Every replica has a GPU of its own.
[[nodiscard]] std::unique_ptr<NcclGroup> make_nccl_group(const Job& job);

}  // namespace perf
