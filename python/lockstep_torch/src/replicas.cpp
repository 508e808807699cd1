// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "replicas.hpp"

#include "errors.hpp"
#include "group.hpp"
#include "operands.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/detail/propagate.hpp>

#include <source_location>

namespace lockstep_torch {
namespace {

lockstep::Communicator make_communicator(int local, std::optional<std::chrono::milliseconds> timeout) {
  return with_torch_errors([&] {
    start();
    return lockstep::world_communicator(
        {.local_replicas = local,
         .fail_after = timeout,
         .name = "replicas",
         .recovery_advice =
             "create a new lockstep_torch.Replicas on every rank, then restore the model from a checkpoint"});
  });
}

}  // namespace

Replicas::Replicas(int local, std::optional<std::chrono::milliseconds> timeout)
    : communicator_(make_communicator(local, timeout)) {}

void Replicas::all_reduce(const std::vector<std::vector<at::Tensor>>& inputs, const std::vector<at::Tensor>& outputs,
                          bool is_mean) const {
  Operands operands("Replicas.average");
  with_torch_errors([&] {
    lockstep::detail::propagate(communicator_, [&] {
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        std::vector<at::Tensor> of_replicas;
        for (const std::vector<at::Tensor>& replica : inputs) of_replicas.push_back(replica.at(k));
        operands.add_replicas(of_replicas, outputs[k]);
      }
    });
    communicator_.all_reduce(operands.items(), is_mean ? lockstep::ReduceOp::mean : lockstep::ReduceOp::sum,
                             {.where = std::source_location()});
    operands.finish();
  });
}

}  // namespace lockstep_torch
