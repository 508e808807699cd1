// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/mirrored_strategy.hpp>

#include "context/replica_team.hpp"
#include "device/cuda/backend.hpp"
#include "strategy/local_devices.hpp"
#include "strategy/strategy_access.hpp"

#include <lockstep/device/gpu.hpp>

#include <utility>

namespace lockstep {
namespace {

std::vector<Device> parse_devices(const std::vector<std::string>& names) {
  std::vector<Device> devices;
  for (const std::string& name : names) devices.push_back(parse_device(name));
  return devices;
}

std::shared_ptr<ReplicaTeam> make_team(std::vector<Device> devices) {
  devices = checked_devices(std::move(devices), "MirroredStrategy");
  const int count = static_cast<int>(devices.size());
  return std::make_shared<ReplicaTeam>(
      "MirroredStrategy", self_communicator({.local_replicas = count, .name = "MirroredStrategy"}), std::move(devices));
}

std::shared_ptr<ReplicaTeam> make_default_team() {
  auto team = make_team(gpus_or_cpu());
  if (gpu_count() == 0) {
    const auto& why = detail::cuda::Backend::of_this_process().found().why;
    team->set_devices_of_all(false, "cpu:0, since there is no GPU: " + why);
  }
  return team;
}

std::shared_ptr<ReplicaTeam> make_team(std::initializer_list<std::string_view> names) {
  if (names.size() == 0) return make_default_team();
  return make_team(parse_devices({names.begin(), names.end()}));
}

}  // namespace

MirroredStrategy::MirroredStrategy() : MirroredStrategy(std::nullopt) {}
MirroredStrategy::MirroredStrategy(std::nullopt_t /*devices*/, std::shared_ptr<CrossDeviceOps> cross_device_ops)
    : Strategy(StrategyOfTheLibrary{.team = make_default_team(), .ops = std::move(cross_device_ops)}) {}
MirroredStrategy::MirroredStrategy(std::shared_ptr<CrossDeviceOps> cross_device_ops)
    : MirroredStrategy(std::nullopt, std::move(cross_device_ops)) {}
MirroredStrategy::MirroredStrategy(const std::vector<std::string>& devices,
                                   std::shared_ptr<CrossDeviceOps> cross_device_ops)
    : MirroredStrategy(parse_devices(devices), std::move(cross_device_ops)) {}
MirroredStrategy::MirroredStrategy(std::initializer_list<std::string_view> devices,
                                   std::shared_ptr<CrossDeviceOps> cross_device_ops)
    : Strategy(StrategyOfTheLibrary{.team = make_team(devices), .ops = std::move(cross_device_ops)}) {}
MirroredStrategy::MirroredStrategy(std::vector<Device> devices, std::shared_ptr<CrossDeviceOps> cross_device_ops)
    : Strategy(StrategyOfTheLibrary{.team = make_team(std::move(devices)), .ops = std::move(cross_device_ops)}) {}

}  // namespace lockstep
