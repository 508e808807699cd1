// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives of lockstep.

#pragma once

#include "bench/perf/call.hpp"
#include "bench/perf/options.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/plan.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace perf {

/// Makes one of lockstep's calls; InFlight posts the asynchronous one. all_reduce runs a prepared plan, unless
/// --unprepared is given.
class OurCall final : public Call {
 public:
  using Request = lockstep::Request;

  /// Local. `communicator` must have as many replicas on each rank as `job` says.
  OurCall(const Case& what, const Job& job, const Buffers& buffers, const Options& options,
          lockstep::Communicator communicator);
  void run() override;

  // for InFlight
  [[nodiscard]] int steps() const noexcept { return 1; }
  void post(int step, std::vector<lockstep::Request>& requests);
  static void wait_all(std::vector<lockstep::Request>& requests);
  void finish() {}

 private:
  void count_rows(const Case& what, const Job& job);

  lockstep::Communicator communicator_;
  lockstep::ReduceOptions reduce_options_;
  std::vector<lockstep::ConstTensorView> input_views_;
  std::vector<lockstep::TensorView> output_views_;
  std::vector<lockstep::Item> items_;
  std::vector<std::int64_t> rows_;  // if parts are uneven; for all_to_all_v the sent rows
  std::vector<std::int64_t> receive_rows_;
  std::optional<lockstep::Plan> plan_;  // for all_reduce without --unprepared
};

}  // namespace perf
