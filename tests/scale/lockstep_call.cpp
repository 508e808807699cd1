// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "scale/lockstep_call.hpp"

#include "base/check.hpp"
#include "collectives/call/descriptor.hpp"
#include "collectives/host/operations.hpp"
#include "schedule/planner.hpp"
#include "transport/mpi/mpi_transport.hpp"

#include <mpi.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {

SimulatedRank::SimulatedRank()
    : transport_(make_mpi_transport(MPI_COMM_WORLD, true)),
      layout_(std::vector<int>(static_cast<std::size_t>(transport_->size()), 1)),
      path_(transport_->local_group() != nullptr ? NodePath::memory : NodePath::messages),
      control_(*transport_),
      agreement_(control_, transport_->local_group(), transport_->rank(), transport_->node_leaders()),
      schedules_(layout_, transport_->node_leaders(), transport_->rank(), {}, path_),
      carry_steps_(make_carry_steps(layout_, transport_->node_leaders(), transport_->rank(), path_)) {}

ScaledTime SimulatedRank::run_call(ScaledCall& scaled, Copies copies) {
  Selected selected = select(scaled, Carried::if_small);
  const double begin = meet();
  set_copies(copies);
  agree(*selected.operation);
  move_data(*selected.operation);
  set_copies(Copies::free);
  selected.time.us = slowest_us(begin);
  return selected.time;
}

ScaledTime SimulatedRank::run_data(ScaledCall& scaled, Copies copies) {
  Selected selected = select(scaled, Carried::never);
  agree(*selected.operation);
  const double begin = meet();
  set_copies(copies);
  move_data(*selected.operation);
  set_copies(Copies::free);
  selected.time.us = slowest_us(begin);
  return selected.time;
}

ScaledTime SimulatedRank::run_all_reduce(ScaledCall& scaled, const std::string& radices) {
  const HostItem item = scaled.item();
  const std::int64_t bytes = item.count() * static_cast<std::int64_t>(size_of(item.dtype));
  const auto schedule_by = [&](const ScheduleOptions& options) {
    return ScheduleCache(layout_, transport_->node_leaders(), rank(), options).find(bytes);
  };
  auto schedule = schedule_by({radices, 0});
  if (schedule == nullptr) schedule = schedule_by({"0", 1});
  const Descriptor descriptor = make_descriptor(scaled.call(), Order::canonical, std::span(&item, 1), "");
  const auto operation = make_mixed_radix_exchange(descriptor, schedule, rank(), {item});
  const double begin = meet();
  move_data(*operation);
  const double us = slowest_us(begin);
  const ScheduleChoice model = priced(schedule->layout(), {}, schedule->radices(), bytes, schedule->segments());
  return {to_string(model.radices), schedule->segments(), us, model.time_us};
}

SimulatedRank::Selected SimulatedRank::select(ScaledCall& scaled, Carried carried) {
  scaled.clear_output();
  const Call& call = scaled.call();
  const HostItem item = scaled.item();
  Descriptor descriptor = make_descriptor(call, Order::canonical, std::span(&item, 1), "");
  if (carried == Carried::if_small && is_carried(descriptor, *carry_steps_, std::span(&item, 1)))
    return {make_carried(descriptor, carry_steps_, transport_->local_group(), {item}), {"carried", 1, 0, 0}};
  if (const auto schedule = schedule_of(call, item)) {
    add_schedule(descriptor, schedule->fingerprint(), "");
    NodeGroup* const group = schedule->begins_in_node() ? transport_->local_group() : nullptr;
    return {make_mixed_radix_exchange(descriptor, schedule, rank(), {item}, group),
            {to_string(schedule->radices()), schedule->segments(), 0, 0}};
  }
  auto operation = call.traits().has_parts() ? make_part_exchange(descriptor, layout_, rank(), {item},
                                                                  transport_->local_group(), schedules_.is_even())
                                             : make_exchange(descriptor, layout_, rank(), {item});
  return {std::move(operation), {"direct", 1, 0, 0}};
}

std::shared_ptr<const RankSchedule> SimulatedRank::schedule_of(const Call& call, const HostItem& item) {
  const std::int64_t bytes = item.count() * static_cast<std::int64_t>(size_of(item.dtype));
  const Traits& kind = call.traits();
  if (kind.pattern == Pattern::broadcast) return schedules_.find_broadcast(bytes);
  if (kind.reduces() && kind.has_root()) return schedules_.find_reduce(bytes);
  if (kind.reduces()) return kind.has_own_outputs() ? schedules_.find_even(bytes) : schedules_.find(bytes);
  if (!kind.gathers() && !kind.scatters()) return nullptr;
  const std::int64_t all_bytes = bytes * layout_.replicas();
  return kind.has_root() ? schedules_.find_rooted_parts(all_bytes, layout_.replicas())
                         : schedules_.find_even(all_bytes);
}

void SimulatedRank::agree(Operation& operation) {
  operation.enter(0, {}, {});
  operation.place_after(0, 0);
  control_.poll();
  agreement_.open(0, operations_++, operation);
  poll_until([&] {
    if (agreement_.awaits_messages()) control_.poll();
    return agreement_.advance();
  });
  LOCKSTEP_CHECK(agreement_.all_agree());
  agreement_.close();
  operation.agree();
}

void SimulatedRank::move_data(Operation& operation) {
  operation.start(*transport_, workspace_);
  poll_until([&] { return operation.advance(*transport_, workspace_); });
}

}  // namespace lockstep::detail
