// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How distributed values are reduced, broadcast and gathered: the part of a strategy that a user may replace.

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
/// of local replica i, each of `outputs` (any number, also none) a place that gets the result.
///
/// To write one, derive and override `describe`, `is_canonical` and `do_batch_reduce`:
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
/// What `do_...` gets has been checked: all inputs of an item have one dtype and shape, one for each local replica of
/// the communicator, outputs that shape and result_dtype(op, dtype), and `op` takes the dtype. An output may be the
/// very view of an input, else they do not overlap. Views lie where their device says, also those of one item in
/// several places; a communicator takes calls whose views all lie on GPUs, or none. Items may be empty tensors, of
/// different dtypes, and one value may be in several items. Afterwards every output of every rank holds the reduction
/// of the values of all replicas on all ranks; inputs that are no outputs are unchanged. A mean divides by the number
/// of all replicas. With one rank (`communicator.size() == 1`) the inputs are the values of all replicas; with several,
/// the ranks make the same calls in the same order, and an implementation talks to them through the communicator alone.
/// An exception of `do_...` ends the call that made it; on several ranks the others get Error(unavailable) with its
/// text. tests/unit/cross_device/contract.hpp is the contract as tests, for any implementation.
///
/// Thread-safety: one call at a time; it may come from any thread.
class LOCKSTEP_API CrossDeviceOps {
 public:
  CrossDeviceOps(const CrossDeviceOps&) = delete;
  CrossDeviceOps& operator=(const CrossDeviceOps&) = delete;
  virtual ~CrossDeviceOps();

  /// The reduction of `item` over all replicas of `communicator`, to all its outputs. Collective. As batch_reduce.
  void reduce(Communicator& communicator, const Item& item, ReduceOp op, const CommunicationOptions& options = {});

  /// The same for every item; no item depends on another. Collective; an empty list is none. Throws
  /// Error(invalid_argument) for a number of inputs other than the local replicas, dtypes or shapes that differ between
  /// them or are not the outputs', an element type that `op` does not take; Error(unavailable) for an implementation
  /// that is not here. The other ranks then get Error(unavailable) with the text.
  void batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                    const CommunicationOptions& options = {});

  /// Outputs get the one input that rank `root` gives. Collective. As Communicator::broadcast.
  void broadcast(Communicator& communicator, std::span<const Item> items, int root,
                 const CommunicationOptions& options = {});

  /// Outputs get the inputs of all replicas one after the other along the first axis; replica r gives `rows[k*R + r]`
  /// rows of item k, or `rows[r]` of every one. Collective. As Communicator::all_gather_v.
  void gather(Communicator& communicator, std::span<const Item> items, std::span<const std::int64_t> rows,
              const CommunicationOptions& options = {});

  /// A name with the settings that matter, as `Strategy::describe` shows it. Local.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Whether its sums are the canonical tree's, bit for bit, where the communicator's order is canonical. Local.
  [[nodiscard]] virtual bool is_canonical() const noexcept = 0;

 protected:
  CrossDeviceOps() = default;

  virtual void do_batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                               const CommunicationOptions& options) = 0;
  /// Unless overridden, the communicator's broadcast.
  virtual void do_broadcast(Communicator& communicator, std::span<const Item> items, int root,
                            const CommunicationOptions& options);
  /// Unless overridden, the communicator's all_gather_v.
  virtual void do_gather(Communicator& communicator, std::span<const Item> items, std::span<const std::int64_t> rows,
                         const CommunicationOptions& options);
};

/// Every one of `outputs` gets the reduction of `inputs`, as of replicas 0 to inputs.size() - 1, along the canonical
/// tree. All have one shape, inputs one dtype, outputs result_dtype(op, dtype); an output may be the very view of an
/// input of that dtype. Where all lie on one GPU it is done there, in order with its stream; else what lies on GPUs is
/// copied through host memory. Local. Throws Error(invalid_argument) where that does not hold, and for no input.
LOCKSTEP_API void reduce_local(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                               ReduceOp op);

}  // namespace lockstep
