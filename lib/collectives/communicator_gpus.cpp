// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the operations of calls on GPUs, and negotiates the path between GPUs.

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/phrases.hpp"
#include "collectives/call/check_items.hpp"
#include "collectives/communicator_state.hpp"
#include "collectives/gpu/operations.hpp"
#include "collectives/internal_call.hpp"
#include "collectives/make_communicator.hpp"
#include "collectives/nccl/start.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {

using detail::GpuPath;

namespace {

/// The message by which rank 0 sends NCCL's unique id to all ranks.
struct IdMessage {
  detail::nccl::UniqueId id;
  std::array<char, 128> why_not{};  // error text if rank 0 could not make the id; else empty
};

/// Describes which data goes through host memory, and why; empty if no data goes through host memory.
std::string staging_notice(const detail::GpuDecision& decision) {
  if (decision.path == GpuPath::host)
    return fmt::format("collectives on GPUs go through host memory: {}", decision.text);
  if (decision.sharing.empty()) return {};
  return fmt::format("between ranks that share a GPU data goes through host memory: {}", decision.sharing);
}

}  // namespace

bool Communicator::State::is_on_gpus(std::span<const Item> items) {
  if (items.empty()) return false;
  const Item& first = items.front();
  if (!first.inputs.empty()) return first.inputs.front().device.kind == DeviceKind::gpu;
  return !first.outputs.empty() && first.outputs.front().device.kind == DeviceKind::gpu;
}

std::chrono::milliseconds Communicator::State::timeout(const ReduceOptions& how) const {
  const auto own = how.fail_after.value_or(std::chrono::milliseconds(0));
  return own.count() > 0 ? own : *options.fail_after;
}

std::shared_ptr<detail::Operation> Communicator::State::make_gpu_operation(const Call& call,
                                                                           std::span<const Item> items,
                                                                           const ReduceOptions& how) {
  std::vector<Device> devices;
  auto checked = propagate(call, how, [&] {
    auto result = detail::check_items(call, layout, rank, items);
    devices = detail::replica_devices(call.kind, result);
    for (const Device device : devices)
      detail::cuda::require_no_capture(detail::cuda::stream_of(device), device.index, call.traits().name);
    return result;
  });
  const auto group = negotiate_path(devices, how.fail_after);
  return propagate(call, how, [&] {
    if (group != nullptr) group->require_places(call, checked);
    return make_operation_of(group, call, std::move(checked), how);
  });
}

detail::Descriptor Communicator::State::describe_on_gpus(const Call& call, std::span<const detail::HostItem> items,
                                                         Order order, const ReduceOptions& how,
                                                         std::uint64_t way) const {
  auto descriptor = detail::make_descriptor(call, order, items, how.name, how.only_name);
  detail::add_gpus(descriptor, way);
  return descriptor;
}

std::shared_ptr<detail::Operation> Communicator::State::make_operation_of(
    const std::shared_ptr<detail::GpuGroup>& group, const Call& call, std::vector<detail::HostItem> checked,
    const ReduceOptions& how) {
  const detail::GpuAlgorithm algorithm = call.traits().on_gpus;
  if (group != nullptr && group->decision().path != GpuPath::host && algorithm != detail::GpuAlgorithm::none) {
    const Order order = gpu_order_of(call, checked, group->leaders(), how);
    const auto descriptor = describe_on_gpus(call, checked, order, how, group->fingerprint());
    if (order == Order::any) return detail::make_nccl_all_reduce(descriptor, group, std::move(checked));
    if (algorithm == detail::GpuAlgorithm::fold)
      return detail::make_fold_exchange(descriptor, group, std::move(checked));
    if (algorithm == detail::GpuAlgorithm::broadcast)
      return detail::make_gpu_broadcast(descriptor, group, std::move(checked));
    if (algorithm == detail::GpuAlgorithm::all_gather && detail::is_even(group->leaders()))
      return detail::make_nccl_all_gather(descriptor, group, std::move(checked));
    return detail::make_part_moves(descriptor, group, std::move(checked));
  }
  auto copies = std::make_unique<detail::HostCopies>(call.kind, checked);
  copies->fetch(timeout(how));
  auto inner = make_host_operation(call, std::move(checked), how);
  auto descriptor = inner->descriptor();
  detail::add_gpus(descriptor, 0);
  return detail::make_staged(descriptor, std::move(inner), std::move(copies));
}

Order Communicator::State::gpu_order_of(const Call& call, std::span<const detail::HostItem> items,
                                        const detail::Leaders& leaders, const ReduceOptions& how) const {
  if (!call.traits().has_schedules() || leaders.size() == 1) return Order::canonical;
  if (order_asked_for(DeviceKind::gpu, how.order) == Order::canonical) return Order::canonical;
  return detail::nccl_reduces(call.op, items, leaders) ? Order::any : Order::canonical;
}

std::unique_ptr<detail::HostCopies> Communicator::State::copies_of_pair(const Call& call,
                                                                        std::span<detail::HostItem> checked) const {
  if (std::none_of(checked.begin(), checked.end(), [](const auto& item) { return item.is_on_gpus(); })) return nullptr;
  auto copies = std::make_unique<detail::HostCopies>(call.kind, checked);
  copies->fetch(*options.fail_after);
  return copies;
}

std::shared_ptr<detail::GpuGroup> Communicator::State::negotiate_path(
    std::span<const Device> devices, std::optional<std::chrono::milliseconds> fail_after) {
  const detail::MutexLock lock(gpu_mutex);
  const std::uint64_t epoch = engine->next_epoch();
  if (gpus != nullptr && gpus->epoch() == epoch) return gpus;
  if (devices.empty()) return nullptr;
  const auto descriptors = exchange_device_descriptors(devices, fail_after);
  // all ranks have left the previous epoch, so aborting the NCCL communicators of that epoch disturbs no rank
  if (gpus != nullptr && gpus->comms() != nullptr) gpus->comms()->abort();
  auto negotiated = detail::GpuGroup::make(epoch, descriptors, layout, rank);
  if (negotiated->decision().path == GpuPath::nccl) start_nccl(*negotiated);
  const detail::GpuDecision& decision = negotiated->decision();
  const std::string slow = staging_notice(decision);
  if (rank == 0 && !slow.empty() && std::exchange(logged_notice, slow) != slow)
    detail::log_warning("{}: {}", options.name, slow);
  gpus = std::move(negotiated);
  return gpus;
}

std::vector<detail::DeviceDescriptor> Communicator::State::exchange_device_descriptors(
    std::span<const Device> devices, std::optional<std::chrono::milliseconds> fail_after) {
  detail::cuda::Backend& backend = detail::cuda::Backend::of_this_process();
  const bool is_one_gpu = layout.ranks() == 1 && std::all_of(devices.begin(), devices.end(), [&](Device device) {
                            return device.index == devices.front().index;
                          });
  std::vector<detail::DeviceDescriptor> own;
  for (const Device device : devices) {
    detail::DeviceDescriptor& descriptor = own.emplace_back();
    descriptor.uuid = backend.found().devices[static_cast<std::size_t>(device.index)].uuid;
    descriptor.device = device.index;
    if (is_one_gpu) continue;  // NCCL is not needed
    const detail::nccl::Library& library = backend.nccl();
    if (library.api != nullptr) descriptor.nccl_version = library.version;
    std::copy_n(library.why.begin(), std::min(library.why.size(), descriptor.why_no_nccl.size() - 1),
                descriptor.why_no_nccl.begin());
  }
  ReduceOptions how = detail::internal_call("the first call on GPUs");
  how.fail_after = fail_after;  // the timeout of the call that needs the path
  return gather_from_replicas<detail::DeviceDescriptor>(own, how);
}

void Communicator::State::start_nccl(detail::GpuGroup& group) {
  IdMessage message;
  if (rank == 0) {
    try {
      group.comms()->check(group.comms()->api().get_unique_id(message.id), "ncclGetUniqueId");
    } catch (const Error& error) {
      const std::string_view text = error.text();
      std::copy_n(text.begin(), std::min(text.size(), message.why_not.size() - 1), message.why_not.begin());
    }
  }
  const TensorView bytes{&message, DType::u8, Shape{static_cast<std::int64_t>(sizeof(message))}, Device{}};
  run(Call::broadcast(0), bytes, bytes, detail::internal_call("the start of NCCL: its id"));
  if (message.why_not[0] != '\0') {
    group.fall_back(fmt::format("cannot start NCCL on rank 0: {}", message.why_not.data()));
    return;
  }
  const auto descriptor = detail::make_descriptor(Call::barrier(), Order::canonical, {}, "the start of NCCL", true);
  const auto starting =
      std::make_shared<detail::NcclStart>(descriptor, group.comms(), message.id, group.leader_of_stream(0),
                                          group.leaders().size(), *options.fail_after / 2);
  static_cast<void>(starting->try_acquire());  // succeeds: the operation is new
  engine->run(starting);
  if (!starting->why_not().empty()) group.fall_back(starting->why_not());
}

detail::GpuDecision CommunicatorAccess::gpu_path(Communicator& communicator, std::span<const Device> devices) {
  Communicator::State& state = *communicator.state_;
  const Communicator::State::Call call = detail::Call::barrier();
  const auto check = [&] {
    if (static_cast<int>(devices.size()) != state.layout.count(state.rank)) {
      detail::throw_error(Code::invalid_argument, "gpu_path: {} for {}; give one device for each replica",
                          detail::counted(devices.size(), "device"),
                          detail::counted(state.layout.count(state.rank), "replica"));
    }
    for (const Device device : devices) detail::cuda::Backend::of_this_process().require(device, "gpu_path");
  };
  state.propagate(call, detail::internal_call({}), check);
  return state.negotiate_path(devices)->decision();
}

std::optional<CommunicatorAccess::NegotiatedGpus> CommunicatorAccess::negotiated_gpus(
    const Communicator& communicator) {
  Communicator::State& state = *communicator.state_;
  const detail::MutexLock lock(state.gpu_mutex);
  if (state.gpus == nullptr) return std::nullopt;
  return NegotiatedGpus{state.gpus->decision(), state.gpus->devices()};
}

}  // namespace lockstep
