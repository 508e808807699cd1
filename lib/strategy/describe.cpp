// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "context/replica_team.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

namespace lockstep {

std::string Strategy::describe() const {
  const Communicator& communicator = team_->communicator();
  const ReplicaLayout& layout = communicator.layout();
  std::vector<std::string> devices;
  for (const Device& device : team_->devices()) devices.push_back(to_string(device));
  const int last = first_replica() + local_replicas() - 1;
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}: {} replicas in sync\n", team_->name(), layout.replicas());
  fmt::format_to(out, "  layout: {} ranks on {} nodes, replicas per rank {}, transport {}\n", layout.ranks(),
                 communicator.nodes(), to_string(layout), communicator.transport());
  fmt::format_to(out, "  this rank: {}, replicas {} to {}, devices {}\n", communicator.rank(), first_replica(), last,
                 fmt::join(devices, " "));
  fmt::format_to(
      out, "  reducer: {}, {}, because {}\n", ops_->describe(),
      ops_->is_canonical() ? "canonical order" : "an order of its own",
      ops_are_given_ ? "it was given as cross_device_ops" : "no cross_device_ops were given and all devices are CPUs");
  fmt::format_to(out, "  communication: bytes_per_pack {}, implementation {}, deadline {} s\n",
                 static_cast<std::int64_t>(communication_options_.bytes_per_pack),
                 to_string(communication_options_.implementation),
                 std::chrono::duration<double>(team_->fail_after()).count());
  return text;
}

}  // namespace lockstep
