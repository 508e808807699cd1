// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a communicator holds, and how one call of it becomes an operation.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "base/mutex.hpp"
#include "collectives/call/host_copies.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/engine.hpp"
#include "collectives/engine/parallel_loop.hpp"
#include "collectives/gpu/group.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "collectives/plan_cache.hpp"
#include "collectives/request_state.hpp"
#include "device/cuda/wait_limit.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep {

namespace detail {

/// For calls that the library makes itself: errors show the name, not a line of the library.
[[nodiscard]] inline ReduceOptions internal_call(std::string_view name) {
  return {.order = std::nullopt, .name = name, .where = std::source_location()};
}

}  // namespace detail

// hidden, though it is in a class that is exported
struct [[gnu::visibility("hidden")]] Communicator::State {
  using Call = detail::Call;

  CommunicatorOptions options;
  std::optional<detail::cuda::WaitClaim> wait_claim;  // of fail_after
  bool force_canonical_order = false;
  ReplicaLayout layout;
  int rank = 0;
  std::shared_ptr<detail::Engine> engine;
  std::shared_ptr<detail::ScheduleCache> schedules;
  mutable detail::Mutex mutex;
  std::shared_ptr<detail::ParallelLoop> parallel_loop LOCKSTEP_GUARDED_BY(mutex);
  detail::PlanCache cache LOCKSTEP_GUARDED_BY(mutex);

  detail::Mutex gpu_mutex;                                                // held while the ranks negotiate
  std::shared_ptr<detail::GpuGroup> gpus LOCKSTEP_GUARDED_BY(gpu_mutex);  // null before the first call on GPUs
  std::string logged_notice LOCKSTEP_GUARDED_BY(gpu_mutex);

  /// Makes the operation of one call in host memory. Throws Error(invalid_argument).
  [[nodiscard]] std::shared_ptr<detail::Operation> make_operation(const Call& call, std::span<const Item> items,
                                                                  const ReduceOptions& how) const;
  [[nodiscard]] std::shared_ptr<detail::Operation> make_host_operation(const Call& call,
                                                                       std::vector<detail::HostItem> checked,
                                                                       const ReduceOptions& how) const;
  /// The same of one on GPUs. What this rank finds wrong is propagated. Collective if the ranks have not negotiated
  /// yet.
  [[nodiscard]] std::shared_ptr<detail::Operation> make_gpu_operation(const Call& call, std::span<const Item> items,
                                                                      const ReduceOptions& how);
  [[nodiscard]] std::shared_ptr<detail::Operation> make_operation_of(const std::shared_ptr<detail::GpuGroup>& group,
                                                                     const Call& call,
                                                                     std::vector<detail::HostItem> checked,
                                                                     const ReduceOptions& how);
  /// How the ranks work on GPUs in this epoch, the local replicas being on `devices`. Collective where they have not
  /// negotiated it yet. Null if they have not and `devices` is empty.
  [[nodiscard]] std::shared_ptr<detail::GpuGroup> negotiate_path(std::span<const Device> devices);
  [[nodiscard]] std::vector<detail::DeviceDescriptor> exchange_device_descriptors(std::span<const Device> devices);
  void start_nccl(detail::GpuGroup& group);
  [[nodiscard]] detail::Descriptor describe_on_gpus(const Call& call, std::span<const detail::HostItem> items,
                                                    Order order, const ReduceOptions& how, std::uint64_t way) const;
  /// As Item's first tensor says; the others are checked later.
  [[nodiscard]] static bool is_on_gpus(std::span<const Item> items);
  /// Returns `make()`. Its errors get the context of `call`, and the other ranks get them with the line of the call.
  template <class Make>
  auto propagate(const Call& call, const ReduceOptions& how, const Make& make) const {
    const detail::EngineCall target{*engine, how.where};
    return detail::propagate(target, [&] {
      try {
        return make();
      } catch (const Error& error) {
        throw Error(error.code(), error.text(), {rank, -1, std::string(call.name()), -1});
      }
    });
  }
  [[nodiscard]] std::shared_ptr<detail::ParallelLoop> loop() const;
  void run(const Call& call, std::span<const Item> items, const ReduceOptions& how);
  /// A call with one tensor of this rank; the call says which of the two is used here.
  void run(const Call& call, const ConstTensorView& input, const TensorView& output, const ReduceOptions& how);
  [[nodiscard]] std::unique_ptr<Request::State> run_async(const Call& call, const ConstTensorView& input,
                                                          const TensorView& output, const ReduceOptions& how);
  /// The item of such a call. It refers to the views.
  [[nodiscard]] Item item_of(const Call& call, const ConstTensorView& input, const TensorView& output,
                             const ReduceOptions& how) const;
  [[nodiscard]] static std::unique_ptr<Plan::State> prepare(const std::shared_ptr<State>& owner, const Call& call,
                                                            std::span<const Item> items, const ReduceOptions& how);
  /// The values of all replicas, by replica; `own` has one per local replica. Collective.
  template <class T>
  [[nodiscard]] std::vector<T> gather_from_replicas(std::span<const T> own, const ReduceOptions& how) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<std::size_t>(layout.replicas()));
    const auto bytes = [](std::size_t count) { return Shape{static_cast<std::int64_t>(count * sizeof(T))}; };
    std::vector<ConstTensorView> inputs;
    for (const T& value : own) inputs.emplace_back(&value, DType::u8, bytes(1));
    const TensorView output{all.data(), DType::u8, bytes(all.size()), Device{}};
    const Item item{inputs, std::span(&output, 1)};
    run(Call::all_gather(), std::span(&item, 1), how);
    return all;
  }
  [[nodiscard]] std::unique_ptr<Request::State> run_async(const Call& call, std::span<const Item> items,
                                                          const ReduceOptions& how);
  /// Starts one end of a message. The other rank gets what this rank finds wrong.
  [[nodiscard]] std::unique_ptr<Request::State> post_pair(const Call& call, std::span<const Item> items,
                                                          const ReduceOptions& how, detail::Progress progress);
  /// What stands for those tensors of a message that lie on GPUs; null where none does.
  [[nodiscard]] std::unique_ptr<detail::HostCopies> copies_of_pair(const Call& call,
                                                                   std::span<detail::HostItem> checked) const;
  /// None: direct exchange, or the shared memory of the node.
  [[nodiscard]] std::shared_ptr<const detail::RankSchedule> schedule_of(
      const Call& call, const std::vector<detail::HostItem>& items) const;
  /// The operation that served the same call before, if it is free and has not failed; else a new one.
  [[nodiscard]] std::shared_ptr<detail::Operation> acquire(const Call& call, std::span<const Item> items,
                                                           const ReduceOptions& how);
  [[nodiscard]] std::shared_ptr<detail::Operation> find_or_make(const Call& call, std::span<const Item> items,
                                                                const ReduceOptions& how);
  /// What the caller asks of this life of `operation`, beside the call itself.
  static void note_options(detail::Operation& operation, const ReduceOptions& how) noexcept;
  /// What the call, the communicator's options and LOCKSTEP_ORDER say together.
  [[nodiscard]] Order order_asked_for(DeviceKind kind, std::optional<Order> of_call) const noexcept;
  /// Any order is honoured where the backend can reduce every item; the canonical one is an instance of any.
  [[nodiscard]] Order order_of(const Call& call, const std::vector<detail::HostItem>& items,
                               const ReduceOptions& how) const;
  /// The same on GPUs that have NCCL.
  [[nodiscard]] Order gpu_order_of(const Call& call, std::span<const detail::HostItem> items,
                                   const detail::Leaders& leaders, const ReduceOptions& how) const;
  /// How long the call may take.
  [[nodiscard]] std::chrono::milliseconds timeout(const ReduceOptions& how) const;
};

}  // namespace lockstep
