// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a program with GPUs does without lockstep: NCCL's own all_reduce.

#pragma once

#include "call.hpp"
#include "nccl_group.hpp"

namespace perf {

/// Makes ncclAllReduce of all replicas' buffers, and waits for it.
class NcclCall final : public Call {
 public:
  /// Local. `what` is as nccl_peer_call() has it; `group` outlives the call.
  NcclCall(const Case& what, const Job& job, const Buffers& buffers, NcclGroup& group)
      : Call(what, job, buffers, Values::order_free), group_(group) {}
  void run() override { group_.all_reduce(inputs(), outputs(), what().count, what().dtype, what().op); }

 private:
  NcclGroup& group_;
};

}  // namespace perf
