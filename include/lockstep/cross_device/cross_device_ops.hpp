// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CrossDeviceOps reduces, broadcasts and gathers distributed values: the part of a strategy that a user may replace.

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

/// Reduces, broadcasts and gathers the tensors of distributed values. A value is an Item: `inputs[i]` is the component
/// of local replica i, and each of `outputs` (any number, possibly none) receives the result.
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
/// Preconditions of the `do_` functions, which the public functions have checked: an item has one input per local
/// replica, all of one dtype and shape; its outputs have that shape and result_dtype(op, dtype); `op` supports the
/// dtype. An output may be the same view as an input; otherwise they do not overlap. Each view is on the device that it
/// names, and the views of one item may be on several devices; a communicator takes only calls whose views are all on
/// GPUs or all in host memory. Items may be empty tensors, may have different dtypes, and may share values.
///
/// Postconditions: every output on every rank holds the reduction of the values of all replicas; an input that is not
/// an output is unchanged. A mean divides by the number of all replicas. With one rank (`communicator.size() == 1`) the
/// inputs are the values of all replicas. With several ranks, they make the same calls in the same order, and an
/// implementation communicates only through the communicator.
///
/// An exception of a `do_` function ends the call; the other ranks get Error(unavailable) with its text.
/// tests/unit/cross_device/contract.hpp tests this contract for any implementation.
///
/// Thread-safety: one call at a time; it may come from any thread.
class LOCKSTEP_API CrossDeviceOps {
 public:
  CrossDeviceOps(const CrossDeviceOps&) = delete;
  CrossDeviceOps& operator=(const CrossDeviceOps&) = delete;
  virtual ~CrossDeviceOps();

  /// Reduces `item` over all replicas of `communicator` and writes all its outputs. Collective. As batch_reduce.
  void reduce(Communicator& communicator, const Item& item, ReduceOp op, const CommunicationOptions& options = {});

  /// Reduces every item; items are independent of each other. Collective, but an empty list does nothing. Throws
  /// Error(invalid_argument) if the number of inputs is not that of the local replicas, if dtypes or shapes differ, or
  /// if `op` does not support the dtype; Error(unavailable) if the implementation that `options` names is not
  /// available. The other ranks then get Error(unavailable) with the text.
  void batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                    const CommunicationOptions& options = {});

  /// Copies the one input of rank `root` to all outputs. Collective. As Communicator::broadcast.
  void broadcast(Communicator& communicator, std::span<const Item> items, int root,
                 const CommunicationOptions& options = {});

  /// Concatenates the inputs of all replicas along the first axis into every output; replica r contributes
  /// `rows[k*R + r]` rows of item k, or `rows[r]` rows of every item. Collective. As Communicator::all_gather_v.
  void gather(Communicator& communicator, std::span<const Item> items, std::span<const std::int64_t> rows,
              const CommunicationOptions& options = {});

  /// The name and the relevant settings, as `Strategy::describe` shows them. Local.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Whether its sums have the bits of the canonical tree if the communicator's order is canonical. Local.
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

/// Writes the reduction of `inputs` along the canonical tree, as the values of replicas 0 to inputs.size() - 1, to
/// every output. All views have one shape, inputs have one dtype, outputs have result_dtype(op, dtype); an output may
/// be the same view as an input of that dtype. If all views are on one GPU, the reduction runs there in stream order;
/// otherwise elements on GPUs are copied through host memory. Local. Throws Error(invalid_argument) if dtypes or shapes
/// break these rules, and if `inputs` is empty.
LOCKSTEP_API void reduce_local(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                               ReduceOp op);

}  // namespace lockstep
