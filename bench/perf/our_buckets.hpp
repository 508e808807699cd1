// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The all_reduce of a list by lockstep::GradientBuckets, as a training step calls it.

#pragma once

#include "bench/perf/list_call.hpp"
#include "bench/perf/options.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/training/gradient_buckets.hpp>

namespace perf {

/// Declares all tensors ready, from the last to the first, and calls `finish`: no computation overlaps the reductions.
/// For ranks with one replica.
class OurBuckets final : public ListCall {
 public:
  /// Collective.
  OurBuckets(const ListTensors& tensors, const Job& job, const Options& options,
             const lockstep::Communicator& communicator);
  void run() override;

 private:
  bool is_async_;
  lockstep::GradientBuckets buckets_;
};

}  // namespace perf
