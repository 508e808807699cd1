// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The backend "lockstep" of torch.distributed, over the communicator of one process group. A synchronous call runs in
// the calling thread. An asynchronous call first runs there for a short time, since most calls end soon; after that the
// progress thread of the communicator completes it.

#pragma once

#include "operands.hpp"
#include "work.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep_torch {

struct BackendOptions {
  int rank = 0;
  int size = 1;
  std::vector<int> ranks_in_world;                   ///< by rank of the group; empty: all ranks of the job
  int tag = 0;                                       ///< of the messages that create the group; equal on its ranks
  std::string name;                                  ///< of the communicator, in errors
  std::optional<std::chrono::milliseconds> timeout;  ///< time after which an operation fails; default: lockstep's
};

/// Time for which an asynchronous call runs in the calling thread before the progress thread continues it, of all
/// backends of this process. Thread-safe.
void set_time_in_call(std::chrono::microseconds time);
[[nodiscard]] std::chrono::microseconds time_in_call();

/// Aborts the current operations of all backends of this process on all ranks; their error has `text`. Thread-safe.
void abort_all(const std::string& text);
/// Shuts all backends of this process down. If operations are pending, they are aborted first.
void shut_all_down();

/// Errors of lockstep become c10::DistBackendError with the text of the error. Thread-safe, except that `shutdown` must
/// not be called by a callback of a future.
class Backend final : public c10d::Backend {
 public:
  /// Creates the communicator. Collective over the ranks of the group. MPI must be initialized.
  explicit Backend(const BackendOptions& options);
  ~Backend() override;

  const std::string getBackendName() const override { return "lockstep"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  // The tensors of one call may be several: the call is one operation of lockstep.
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;

  // The outputs of a list may have different sizes on different ranks in allgather, reduce_scatter and alltoall.
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;

  // Of the two names of each function below, these are in older versions of torch, too; the other ones forward to them.
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                        std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& options) override;

  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  /// The k-th send from one rank to another matches the k-th receive; if their tags differ, both fail.
  WorkPtr send(Tensors& tensors, int target, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;

  /// Between these calls of one thread, every call of that thread is asynchronous; the result of endCoalescing is
  /// complete when all of them are.
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  [[nodiscard]] std::uint64_t getSequenceNumberForGroup() override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  /// A tensor in memory that all ranks of the node map.
  at::Tensor allocateTensor(long count, at::TensorOptions options) override;

  /// Fails the pending and the current operations on all ranks. The group can be used again.
  void abort() override;
  /// Waits for pending operations, and ends the communicator of this rank.
  void shutdown() override;
  void abort_pending(const std::string& text);

 private:
  struct Call {
    c10d::OpType type;
    const char* title;  ///< "lockstep:all_reduce"
    bool is_async;
    std::chrono::milliseconds timeout;
    bool is_message = false;  ///< between two ranks, which alone get its errors
  };
  using Add = std::function<void(Operands&)>;
  using Blocking = std::function<void(const lockstep::Communicator&, std::span<const lockstep::Item>,
                                      const lockstep::ReduceOptions&)>;
  using Async = std::function<lockstep::Request(const lockstep::Communicator&, std::span<const lockstep::Item>,
                                                const lockstep::ReduceOptions&)>;

  /// Makes one call: `add` adds its items, `async` or `blocking` passes them to lockstep.
  WorkPtr post(const Call& call, const Tensors& outputs, const Add& add, const Blocking& blocking, const Async& async,
               const std::string& name = {});
  void complete_later(lockstep::Request request, const c10::intrusive_ptr<Work>& work,
                      const std::shared_ptr<Operands>& operands);
  WorkPtr reduce_all(Tensors& tensors, const Call& call, const c10d::ReduceOp& op);
  WorkPtr gather_all(const TensorLists& outputs, const Tensors& inputs, const Call& call);
  [[nodiscard]] lockstep::Communicator communicator() const;

  c10::intrusive_ptr<Options> options_;
  mutable std::mutex mutex_;
  std::optional<lockstep::Communicator> communicator_;  // guarded by mutex_
  std::chrono::milliseconds timeout_{0};                // guarded by mutex_; zero: that of the communicator
  std::uint64_t sequence_ = 0;                          // guarded by mutex_
  std::shared_ptr<std::atomic<int>> pending_ = std::make_shared<std::atomic<int>>(0);  // calls that complete later
};

}  // namespace lockstep_torch
