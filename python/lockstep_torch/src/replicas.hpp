// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions over a fixed number of replicas: a process computes the gradients of several replicas one after another.
// The sum follows lockstep's tree over replica ids, so its bits do not depend on the number of processes.

#pragma once

#include <ATen/core/Tensor.h>
#include <lockstep/collectives/communicator.hpp>

#include <chrono>
#include <optional>
#include <vector>

namespace lockstep_torch {

class Replicas {
 public:
  /// `local`: number of replicas of this process. Collective over the job.
  Replicas(int local, std::optional<std::chrono::milliseconds> timeout);

  [[nodiscard]] int count() const { return communicator_.layout().replicas(); }
  /// Id of the first replica of this process; the others follow.
  [[nodiscard]] int first() const { return communicator_.layout().first(communicator_.rank()); }

  /// Writes to each of `outputs` the mean or the sum over all replicas. `inputs` has one list of tensors for each
  /// replica of this process, with one tensor for each output. Collective over the job.
  void all_reduce(const std::vector<std::vector<at::Tensor>>& inputs, const std::vector<at::Tensor>& outputs,
                  bool is_mean) const;

 private:
  lockstep::Communicator communicator_;
};

}  // namespace lockstep_torch
