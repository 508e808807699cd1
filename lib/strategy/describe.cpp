// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/phrases.hpp"
#include "collectives/make_communicator.hpp"
#include "context/replica_team.hpp"
#include "device/cuda/backend.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <string_view>

namespace lockstep {
namespace {

bool are_gpus(const ReplicaTeam& team) {
  return !team.devices_are_mixed() && team.devices().front().kind == DeviceKind::gpu;
}

std::string_view kind_of_devices(const ReplicaTeam& team) {
  return are_gpus(team)             ? "all devices are GPUs"
         : team.devices_are_mixed() ? "devices are CPUs and GPUs"
                                    : "all devices are CPUs";
}

/// The data path between replicas.
std::string path_text(const ReplicaTeam& team, const CommunicationOptions& options) {
  if (team.devices_are_mixed()) return "host memory, because some devices are CPUs and some GPUs";
  if (!are_gpus(team)) return "host memory";
  if (options.implementation == CommunicationImplementation::ring) return "host memory, because RING was requested";
  const auto negotiated = CommunicatorAccess::negotiated_gpus(team.communicator());
  if (!negotiated) return "between GPUs, by a path that the first collective selects";
  return fmt::format("{}: {}", negotiated->decision.path == detail::GpuPath::host ? "host memory" : "between GPUs",
                     negotiated->decision.text);
}

}  // namespace

std::string Strategy::describe() const {
  const Communicator& communicator = team_->communicator();
  const ReplicaLayout& layout = communicator.layout();
  std::vector<std::string> devices;
  for (const Device& device : team_->devices()) devices.push_back(to_string(device));
  const int last = first_replica() + local_replicas() - 1;
  const std::string_view reason = communicator.transport_reason();
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}: {} in sync\n", team_->numbered_name(), detail::counted(layout.replicas(), "replica"));
  fmt::format_to(out, "  layout: {} on {}, replicas per rank {}, transport {}{}\n",
                 detail::counted(layout.ranks(), "rank"), detail::counted(communicator.nodes(), "node"),
                 to_string(layout), communicator.transport(), reason.empty() ? "" : fmt::format(" ({})", reason));
  fmt::format_to(out, "  this rank: {}, replicas {} to {}, devices {}\n", communicator.rank(), first_replica(), last,
                 fmt::join(devices, " "));
  if (const std::string& note = team_->note_on_devices(); !note.empty()) {
    fmt::format_to(out, "  devices: {}\n", note);
    const std::string versions = detail::cuda::versions_text(detail::cuda::Backend::of_this_process());
    if (!versions.empty()) fmt::format_to(out, "  libraries for GPUs: {}\n", versions);
  }
  fmt::format_to(out, "  reducer: {}, {}, because {}\n", ops_->describe(),
                 !ops_->is_canonical() ? "an order of its own"
                 : are_gpus(*team_) && communicator.options().order != Order::canonical
                     ? "canonical order but where NCCL adds"
                     : "canonical order",
                 ops_are_given_ ? "it was given as cross_device_ops"
                                : fmt::format("no cross_device_ops were given and {}", kind_of_devices(*team_)));
  fmt::format_to(out, "  path: {}\n", path_text(*team_, communication_options_));
  fmt::format_to(out, "  communication: bytes_per_pack {}, implementation {}, deadline {} s\n",
                 static_cast<std::int64_t>(communication_options_.bytes_per_pack),
                 to_string(communication_options_.implementation),
                 std::chrono::duration<double>(team_->fail_after()).count());
  return text;
}

}  // namespace lockstep
