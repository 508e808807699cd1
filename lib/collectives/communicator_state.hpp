// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a communicator, and the functions that make the operation for a call.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "base/mutex.hpp"
#include "collectives/call/host_copies.hpp"
#include "collectives/call/host_item.hpp"
#include "collectives/engine/carried_data.hpp"
#include "collectives/engine/engine.hpp"
#include "collectives/engine/parallel_loop.hpp"
#include "collectives/gpu/group.hpp"
#include "collectives/hash_recorder.hpp"
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

/// The fail_after of a new communicator on one rank. The ranks exchange it when they make the communicator.
struct RankTimeout {
  int rank = 0;
  std::int32_t milliseconds = 0;  ///< 2^31 - 1 stands for all longer times
};

/// The `milliseconds` of a RankTimeout on this rank.
[[nodiscard]] std::int32_t timeout_ms(const CommunicatorOptions& options);
/// Throws Error(mismatch) if `a` and `b` have different times. The text begins with `call`.
void require_equal_timeouts(std::string_view call, const RankTimeout& a, const RankTimeout& b);
/// Throws Error(invalid_argument) if `local_replicas` of `rank` is less than 1. The text begins with `call`.
void require_replicas(std::string_view call, int rank, int local_replicas);

}  // namespace detail

// hidden, although Communicator is exported
struct [[gnu::visibility("hidden")]] Communicator::State {
  using Call = detail::Call;
  class Creator;  // makes a communicator from this communicator

  CommunicatorOptions options;
  std::optional<detail::cuda::WaitClaim> wait_claim;  // lets waits for GPUs take up to options.fail_after
  bool force_canonical_order = false;
  ReplicaLayout layout;
  int rank = 0;
  std::shared_ptr<detail::Engine> engine;
  std::shared_ptr<detail::ScheduleCache> schedules;       // null until the numbers of replicas are known
  std::shared_ptr<const detail::CarrySteps> carry_steps;  // null before `schedules` is set; null if no data is carried
  std::shared_ptr<const detail::RankSchedule> level_schedule;  // of a node with several levels; null otherwise
  std::unique_ptr<const detail::HashRecorder> hashes;          // null unless LOCKSTEP_HASH_LOG is set
  mutable detail::Mutex mutex;
  std::shared_ptr<detail::ParallelLoop> parallel_loop LOCKSTEP_GUARDED_BY(mutex);
  detail::PlanCache cache LOCKSTEP_GUARDED_BY(mutex);
  detail::PlanCache message_cache LOCKSTEP_GUARDED_BY(mutex);  // separate, so that messages displace no collectives

  detail::Mutex creation_mutex;            // held while another communicator is made from this communicator
  std::vector<std::byte> creation_memory;  // what the ranks exchange then; the same each time, so that plans are reused
  detail::Mutex gpu_mutex;                 // held while the ranks negotiate the path between GPUs
  std::shared_ptr<detail::GpuGroup> gpus LOCKSTEP_GUARDED_BY(gpu_mutex);  // null before the first call on GPUs
  std::string logged_notice LOCKSTEP_GUARDED_BY(gpu_mutex);

  /// Makes the operation of one call in host memory. Throws Error(invalid_argument).
  [[nodiscard]] std::shared_ptr<detail::Operation> make_operation(const Call& call, std::span<const Item> items,
                                                                  const ReduceOptions& how) const;
  [[nodiscard]] std::shared_ptr<detail::Operation> make_host_operation(const Call& call,
                                                                       std::vector<detail::HostItem> checked,
                                                                       const ReduceOptions& how) const;
  /// Makes the operation of one call on GPUs. Propagates the errors of this rank to the other ranks. If the ranks have
  /// not negotiated the path yet, the function negotiates it, and is collective.
  [[nodiscard]] std::shared_ptr<detail::Operation> make_gpu_operation(const Call& call, std::span<const Item> items,
                                                                      const ReduceOptions& how);
  [[nodiscard]] std::shared_ptr<detail::Operation> make_operation_of(const std::shared_ptr<detail::GpuGroup>& group,
                                                                     const Call& call,
                                                                     std::vector<detail::HostItem> checked,
                                                                     const ReduceOptions& how);
  /// The path between GPUs in this epoch. The local replicas are on `devices`. Before the negotiation, a call with
  /// empty `devices` returns null; a call with other `devices` negotiates the path, and is collective.
  [[nodiscard]] std::shared_ptr<detail::GpuGroup> negotiate_path(
      std::span<const Device> devices, std::optional<std::chrono::milliseconds> fail_after = std::nullopt);
  [[nodiscard]] std::vector<detail::DeviceDescriptor> exchange_device_descriptors(
      std::span<const Device> devices, std::optional<std::chrono::milliseconds> fail_after);
  void start_nccl(detail::GpuGroup& group);
  [[nodiscard]] detail::Descriptor describe_on_gpus(const Call& call, std::span<const detail::HostItem> items,
                                                    Order order, const ReduceOptions& how, std::uint64_t way) const;
  /// Whether the first tensor is on a GPU. The other tensors are checked later.
  [[nodiscard]] static bool is_on_gpus(std::span<const Item> items);
  /// Runs `make()`. If it throws an error, adds the context of `call` to the error, and propagates the error to the
  /// other ranks with the line of the call.
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
  /// Runs a call with one tensor per rank. The kind of the call decides whether this rank uses `input`, `output` or
  /// both.
  void run(const Call& call, const ConstTensorView& input, const TensorView& output, const ReduceOptions& how);
  [[nodiscard]] std::unique_ptr<Request::State> run_async(const Call& call, const ConstTensorView& input,
                                                          const TensorView& output, const ReduceOptions& how);
  /// The item of a call with one tensor per rank. The item refers to `input` and `output`.
  [[nodiscard]] Item item_of(const Call& call, const ConstTensorView& input, const TensorView& output,
                             const ReduceOptions& how) const;
  [[nodiscard]] static std::unique_ptr<Plan::State> prepare(const std::shared_ptr<State>& owner, const Call& call,
                                                            std::span<const Item> items, const ReduceOptions& how);
  /// The values of all replicas, by replica; `own` has one value per local replica. Collective.
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
  /// See Communicator::recover.
  [[nodiscard]] std::int64_t recover(const std::source_location& where);
  class PairItems;
  /// Returns post(role), which posts a send or receive. If it throws, tells the other rank the error.
  template <class Post>
  auto tell_peer(const Call& call, const ReduceOptions& how, const Post& post);
  /// The operation of a send or receive: that of an earlier equal call if it is not in use, else a new one.
  [[nodiscard]] std::shared_ptr<detail::PairOperation> acquire_pair(const Call& call, detail::PairOperation::Role role,
                                                                    std::span<const Item> items,
                                                                    const ReduceOptions& how);
  /// Starts a send of `inputs` or a receive into `outputs`; the other list is empty. Errors of this rank are sent to
  /// the other rank.
  [[nodiscard]] std::unique_ptr<Request::State> post_pair(const Call& call, std::span<const ConstTensorView> inputs,
                                                          std::span<const TensorView> outputs,
                                                          const ReduceOptions& how);
  /// As `post_pair`, and waits for the end.
  void run_pair(const Call& call, std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                const ReduceOptions& how);
  /// Host copies of the tensors of a send or receive that are on GPUs; null if no tensor is on a GPU.
  [[nodiscard]] std::unique_ptr<detail::HostCopies> copies_of_pair(const Call& call,
                                                                   std::span<detail::HostItem> checked) const;
  /// Whether the data of the call travels in the messages of the agreement.
  [[nodiscard]] bool is_carried(const Call& call, const detail::Descriptor& descriptor,
                                std::span<const detail::HostItem> items) const;
  /// The schedule of the call; null if the call runs as a direct exchange, or in the shared memory of one node.
  [[nodiscard]] std::shared_ptr<const detail::RankSchedule> schedule_of(
      const Call& call, const std::vector<detail::HostItem>& items) const;
  /// The operation of an earlier equal call, if that operation is not in use; else a new operation.
  [[nodiscard]] std::shared_ptr<detail::Operation> acquire(const Call& call, std::span<const Item> items,
                                                           const ReduceOptions& how);
  [[nodiscard]] std::shared_ptr<detail::Operation> find_or_make(const Call& call, std::span<const Item> items,
                                                                const ReduceOptions& how);
  /// As `acquire`, for a call that the hash log has. The log does not have calls that the library makes for itself.
  [[nodiscard]] std::shared_ptr<detail::Operation> acquire_logged(const Call& call, std::span<const Item> items,
                                                                  const ReduceOptions& how) {
    auto acquired = acquire(call, items, how);
    if (hashes != nullptr && !how.only_name) hashes->attach(*acquired, call, items);
    return acquired;
  }
  /// Sets in `operation` the options in which equal calls may differ: the timeout and the line of the caller.
  static void note_options(detail::Operation& operation, const ReduceOptions& how) noexcept;
  /// The requested order: the order of the call, else of the communicator's options, else the default for `kind`.
  /// LOCKSTEP_ORDER may force Order::canonical.
  [[nodiscard]] Order order_asked_for(DeviceKind kind, std::optional<Order> of_call) const noexcept;
  /// Order::any if it is requested and the backend can reduce every item; else Order::canonical, which a request of
  /// Order::any permits.
  [[nodiscard]] Order order_of(const Call& call, const std::vector<detail::HostItem>& items,
                               const ReduceOptions& how) const;
  /// As order_of, for a call on GPUs, with NCCL as the backend.
  [[nodiscard]] Order gpu_order_of(const Call& call, std::span<const detail::HostItem> items,
                                   const detail::Leaders& leaders, const ReduceOptions& how) const;
  /// The time limit of the call.
  [[nodiscard]] std::chrono::milliseconds timeout(const ReduceOptions& how) const;
};

}  // namespace lockstep
