// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CrossDeviceOps: the interface by which a strategy reduces, broadcasts and gathers distributed values. A program may
// implement this interface and pass the implementation to a strategy.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

/// Reduces, broadcasts and gathers the tensors of distributed values. Each value is an Item: `inputs[i]` is the
/// component of local replica i, and every view in `outputs` receives the result. `outputs` may be empty.
///
/// An implementation overrides `describe`, `is_canonical` and `do_batch_reduce`:
///
///   class Mine : public CrossDeviceOps {
///     std::string describe() const override { return "Mine"; }
///     bool is_canonical() const noexcept override { return true; }
///     void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
///                          const CommunicationOptions& options) override {
///       for (const Item& item : items) reduce_local(item.inputs, item.outputs, op);
///     }
///   };
///
/// Preconditions of do_batch_reduce: an item has one input per local replica, and all inputs of an item have one dtype
/// and shape. All outputs of an item have the shape of the inputs and result_dtype(op, dtype). `op` supports the dtype.
/// batch_reduce has checked these conditions. An output may be the same view as an input; except for this, views do not
/// overlap. Each view is on the device that the view names. The views of one item may be on different devices, but a
/// Communicator accepts a call only if all views are on GPUs, or all views are in host memory. Tensors may be empty.
/// Different items may have different dtypes, and may have the same inputs.
///
/// Postconditions of do_batch_reduce: every output on every rank holds the reduction of the values of all replicas. An
/// input that is not also an output is unchanged. A mean divides by the number of replicas of all ranks. If there is
/// one rank (`communicator.size() == 1`), the inputs are the values of all replicas. If there are several ranks, all
/// ranks make the same calls in the same order, and an implementation communicates only through `communicator`.
///
/// If a `do_` function throws, the call ends with this exception, and the other ranks get Error(unavailable) with the
/// text of the exception. tests/unit/cross_device/contract.hpp tests this contract for any implementation.
///
/// Thread-safety: one call at a time, from any thread.
class LOCKSTEP_API CrossDeviceOps {
 public:
  CrossDeviceOps(const CrossDeviceOps&) = delete;
  CrossDeviceOps& operator=(const CrossDeviceOps&) = delete;
  virtual ~CrossDeviceOps();

  /// Reduces `item` over all replicas, and writes all outputs of `item`. Collective. Throws as batch_reduce.
  void reduce(Communicator& communicator, const Item& item, ReduceOp op, const CommunicationOptions& options = {});

  /// Reduces every item independently of the other items. Collective; an empty list does nothing. Throws
  /// Error(invalid_argument) if the number of inputs differs from the number of local replicas, if dtypes or shapes
  /// differ, or if `op` does not support the dtype. Throws Error(unavailable) if the implementation that `options`
  /// names is not available. If one rank throws, the other ranks get Error(unavailable) with the text of the error.
  void batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                    const CommunicationOptions& options = {});

  /// Copies the only input of each item on rank `root` to all outputs of the item on all ranks. Collective.
  /// Requirements and errors are those of Communicator::broadcast.
  void broadcast(Communicator& communicator, std::span<const Item> items, int root,
                 const CommunicationOptions& options = {});

  /// Concatenates the inputs of all replicas along the first axis into every output. With R replicas in all, replica r
  /// contributes `rows[k*R + r]` rows to item k; if `rows` has only R elements, replica r contributes `rows[r]` rows to
  /// every item. Collective. Requirements and errors are those of Communicator::all_gather_v.
  void gather(Communicator& communicator, std::span<const Item> items, std::span<const std::int64_t> rows,
              const CommunicationOptions& options = {});

  /// The name and the relevant settings, as `Strategy::describe` shows them. Local.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Whether sums have the bits of the canonical tree if the communicator's order is canonical. Local.
  [[nodiscard]] virtual bool is_canonical() const noexcept = 0;

 protected:
  CrossDeviceOps() = default;

  virtual void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                               const CommunicationOptions& options) = 0;
  /// The default calls the communicator's broadcast.
  virtual void do_broadcast(Communicator& communicator, std::span<const Item> items, int root,
                            const CommunicationOptions& options);
  /// The default calls the communicator's all_gather_v.
  virtual void do_gather(Communicator& communicator, std::span<const Item> items, std::span<const std::int64_t> rows,
                         const CommunicationOptions& options);
};

/// Reduces `inputs` along the canonical tree, with `inputs[r]` as the value of replica r, and writes the result to
/// every output. All views have one shape, all inputs have one dtype, and all outputs have result_dtype(op, dtype). An
/// output may be the same view as an input if both views have the same dtype. If all views are on one GPU, the
/// reduction runs on the GPU, in the order of the device's stream; otherwise elements on GPUs are copied through host
/// memory. Local. Throws Error(invalid_argument) if dtypes or shapes break these rules, or if `inputs` is empty.
LOCKSTEP_API void reduce_local(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                               ReduceOp op);

}  // namespace lockstep
