// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL as a program without lockstep uses it. A build without CUDA or without NCCL's header refuses.

#pragma once

#include "buffers.hpp"
#include "case.hpp"

#include <memory>
#include <span>

namespace perf {

/// NCCL's communicators of this rank's replicas, one for each GPU. Pinned.
class NcclGroup {
 public:
  NcclGroup() = default;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  virtual ~NcclGroup() = default;

  /// ncclAllReduce of each replica's `count` elements, and the wait for it. `dtype` and `op` are such as NCCL has.
  /// Collective over the job. Throws std::runtime_error with NCCL's words.
  virtual void all_reduce(std::span<const Region> inputs, std::span<const Region> outputs, std::int64_t count,
                          lockstep::DType dtype, lockstep::ReduceOp op) = 0;
};

/// Local. Throws OptionError that says why there is no NCCL here.
void require_nccl();
/// Collective over the job, after require_nccl on all ranks. Every replica has a GPU of its own.
[[nodiscard]] std::unique_ptr<NcclGroup> make_nccl_group(const Job& job);

}  // namespace perf
