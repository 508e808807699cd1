// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/steps.hpp"

#include <lockstep/context/replica_context.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "collectives/make_communicator.hpp"
#include "simulation/allocations.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <stdexcept>
#include <vector>

namespace lockstep::simulation {
namespace {

using Floats = std::vector<float>;

Floats elements_of(const ConstTensorView& view) {
  const auto* const first = static_cast<const float*>(view.data);
  return {first, first + view.shape.element_count()};
}

}  // namespace

std::string make_step(const Communicator& comm, const Item& item, const detail::TestHooks& hooks,
                      const std::optional<std::string>& thrown) {
  const CodeOf code(CodeOf::library);
  MultiWorkerMirroredStrategy strategy(comm);
  Communicator own = strategy.communicator();
  CommunicatorAccess::set_test_hooks(own, &hooks);
  const int first = comm.layout().first(comm.rank());
  try {
    const auto variable =
        strategy.variable<float>(Floats(1, 0.0F), {.name = "count", .aggregation = VariableAggregation::sum});
    strategy.run([&](ReplicaContext& replica) {
      const auto local = static_cast<std::size_t>(replica.replica_id_in_sync_group() - first);
      variable.assign_add(Floats(1, 1.0F));
      if (thrown && local == 0) throw std::runtime_error(*thrown);
      const Floats sum = replica.all_reduce(ReduceOp::sum, elements_of(item.inputs[local]));
      std::copy(sum.begin(), sum.end(), static_cast<float*>(item.outputs[local].data));
    });
    const float replicas = variable.elements().front();
    const auto all = static_cast<float>(comm.layout().replicas());
    return replicas == all ? std::string() : "the variable is " + std::to_string(replicas);
  } catch (const Error& error) {
    comm.abort(error.text());
    throw;
  } catch (const std::bad_alloc& error) {
    comm.abort(error.what());
    throw;
  }
}

}  // namespace lockstep::simulation
