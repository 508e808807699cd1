// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep's collectives.

#pragma once

#include "call.hpp"
#include "options.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/plan.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace perf {

/// Makes one of lockstep's calls, with wait() behind it where --async is given. all_reduce is prepared, unless
/// --unprepared is given.
class OurCall final : public Call {
 public:
  /// Local. `communicator` must have as many replicas on each rank as `job` says.
  OurCall(const Case& what, const Job& job, const Buffers& buffers, const Options& options,
          lockstep::Communicator communicator);
  void run() override;

 private:
  void count_rows(const Case& what, const Job& job);

  lockstep::Communicator communicator_;
  lockstep::ReduceOptions reduce_options_;
  std::vector<lockstep::ConstTensorView> input_views_;
  std::vector<lockstep::TensorView> output_views_;
  std::vector<lockstep::Item> items_;
  std::vector<std::int64_t> rows_;  // where parts are uneven; all_to_all_v: that are sent
  std::vector<std::int64_t> receive_rows_;
  bool is_async_;
  std::optional<lockstep::Plan> plan_;  // where there is one for the collective, and it is wanted
};

}  // namespace perf
