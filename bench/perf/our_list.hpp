// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The all_reduce of a list by lockstep.

#pragma once

#include "bench/perf/list_call.hpp"
#include "bench/perf/options.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/plan.hpp>

#include <vector>

namespace perf {

/// One call for all tensors, a call for each, or one for each bucket with packing before and unpacking after. The calls
/// run prepared plans, unless --unprepared is given. In the form async, all calls are posted before the first wait.
class OurList final : public ListCall {
 public:
  OurList(const ListTensors& tensors, const Job& job, ListMode mode, const Options& options,
          lockstep::Communicator communicator);
  void run() override;

 private:
  /// The arguments of one call: the items, and the views that their spans refer to.
  struct Views {
    std::vector<lockstep::ConstTensorView> inputs;
    std::vector<lockstep::TensorView> outputs;
  };
  void add_item(std::span<const Region> of_replicas);
  void make_packed();
  void run_async();
  void pack(std::size_t call) const;
  void unpack(std::size_t call) const;
  void await_copies() const;
  /// The items of call number `call`.
  [[nodiscard]] std::span<const lockstep::Item> items_of(std::size_t call) const;
  void reduce(std::size_t call);
  [[nodiscard]] lockstep::Request post(std::size_t call);
  [[nodiscard]] std::size_t calls() const noexcept { return mode_ == ListMode::one_plan ? 1 : items_.size(); }

  lockstep::Communicator communicator_;
  lockstep::ReduceOptions reduce_options_;
  ListMode mode_;
  bool is_async_;
  std::vector<Bucket> buckets_;
  std::vector<PackedTensors> packed_;  // by local replica; empty without buckets
  std::vector<std::unique_ptr<Views>> views_;
  std::vector<lockstep::Item> items_;
  std::vector<lockstep::Plan> plans_;  // by call; empty with --unprepared
};

}  // namespace perf
