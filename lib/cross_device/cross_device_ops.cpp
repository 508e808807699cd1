// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cross_device/cross_device_ops.hpp>

#include "base/check.hpp"
#include "cross_device/distributed_items.hpp"
#include "kernels/reduce.hpp"
#include "schedule/canonical_tree.hpp"

#include <exception>
#include <vector>

namespace lockstep {
namespace {

void check_implementation(const CommunicationOptions& options) {
  if (options.implementation == CommunicationImplementation::nccl) {
    detail::throw_error(Code::unavailable,
                        "CommunicationOptions: implementation NCCL is not in this build; give AUTO or RING");
  }
}

/// `call()`; what one rank throws reaches the others. What a collective throws they know already; it names its
/// operation.
template <class Call>
void told_to_all(Communicator& communicator, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    if (communicator.size() > 1 && error.operation().empty()) communicator.announce_failure(error.what());
    throw;
  } catch (const std::exception& error) {
    if (communicator.size() > 1) communicator.announce_failure(error.what());
    throw;
  }
}

}  // namespace

CrossDeviceOps::~CrossDeviceOps() = default;

void CrossDeviceOps::reduce(Communicator& communicator, const Item& item, ReduceOp op,
                            const CommunicationOptions& options) {
  batch_reduce(communicator, std::span(&item, 1), op, options);
}

void CrossDeviceOps::batch_reduce(Communicator& communicator, std::span<const Item> items, ReduceOp op,
                                  const CommunicationOptions& options) {
  if (items.empty()) return;
  told_to_all(communicator, [&] {
    check_implementation(options);
    check_distributed_items(items, op, "batch_reduce", communicator.local_replicas(),
                            communicator.layout().first(communicator.rank()));
    do_batch_reduce(communicator, items, op, options);
  });
}

void CrossDeviceOps::broadcast(Communicator& communicator, std::span<const Item> items, int root,
                               const CommunicationOptions& options) {
  if (items.empty()) return;
  told_to_all(communicator, [&] {
    check_implementation(options);
    do_broadcast(communicator, items, root, options);
  });
}

void CrossDeviceOps::gather(Communicator& communicator, std::span<const Item> items, std::span<const std::int64_t> rows,
                            const CommunicationOptions& options) {
  if (items.empty()) return;
  told_to_all(communicator, [&] {
    check_implementation(options);
    do_gather(communicator, items, rows, options);
  });
}

void CrossDeviceOps::do_broadcast(Communicator& communicator, std::span<const Item> items, int root,
                                  const CommunicationOptions& options) {
  communicator.broadcast(items, root, {.order = {}, .name = {}, .fail_after = options.deadline()});
}

void CrossDeviceOps::do_gather(Communicator& communicator, std::span<const Item> items,
                               std::span<const std::int64_t> rows, const CommunicationOptions& options) {
  communicator.all_gather_v(items, rows, {.order = {}, .name = {}, .fail_after = options.deadline()});
}

void reduce_local(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, ReduceOp op) {
  if (inputs.empty()) {
    detail::throw_error(Code::invalid_argument, "reduce_local: there is no input; give one for each replica");
  }
  const Item item{inputs, outputs};
  const int count = static_cast<int>(inputs.size());
  check_distributed_items(std::span(&item, 1), op, "reduce_local", count, 0);
  if (outputs.empty()) return;
  std::vector<detail::FoldInput> leaves;
  for (const ConstTensorView& input : inputs) leaves.push_back({input.data, false});
  std::vector<void*> targets;
  for (const TensorView& output : outputs) targets.push_back(output.data);
  const std::vector<std::uint8_t> merges = detail::fold_merges_of_leaves({0, count});
  detail::Fold fold;
  fold.op = op;
  fold.dtype = inputs.front().dtype;
  fold.inputs = leaves;
  fold.merges = merges;
  fold.outputs = targets;
  fold.replicas = count;
  detail::reduce(fold, inputs.front().element_count());
}

}  // namespace lockstep
