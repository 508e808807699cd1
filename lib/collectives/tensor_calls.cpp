// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls with one tensor per rank. Each of these calls is a call with one item.

#include <lockstep/collectives/communicator.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "collectives/communicator_state.hpp"

namespace lockstep {

using detail::Call;

Item Communicator::State::item_of(const Call& call, const ConstTensorView& input, const TensorView& output,
                                  const ReduceOptions& how) const {
  const detail::Traits& kind = call.traits();
  const bool has_one_each = kind.inputs == detail::Place::replicas || kind.has_own_outputs();
  if (const int replicas = layout.count(rank); has_one_each && replicas != 1) {
    propagate(call, how, [&] {
      detail::throw_error(Code::invalid_argument,
                          "{}: a call with one tensor requires one replica per rank, but rank {} has {}; pass "
                          "items with one tensor for each replica",
                          kind.name, rank, detail::counted(replicas, "replica"));
    });
  }
  const bool is_root = rank == call.root;
  const bool reads = kind.inputs != detail::Place::root || is_root;
  // the root of a broadcast has the values already
  const bool is_source = kind.pattern == detail::Pattern::broadcast && is_root;
  const bool writes = kind.outputs == detail::Place::root ? is_root : !is_source;
  return {std::span(&input, reads ? 1 : 0), std::span(&output, writes ? 1 : 0)};
}

void Communicator::State::run(const Call& call, const ConstTensorView& input, const TensorView& output,
                              const ReduceOptions& how) {
  const Item item = item_of(call, input, output, how);
  run(call, std::span(&item, 1), how);
}

std::unique_ptr<Request::State> Communicator::State::run_async(const Call& call, const ConstTensorView& input,
                                                               const TensorView& output, const ReduceOptions& how) {
  const Item item = item_of(call, input, output, how);
  return run_async(call, std::span(&item, 1), how);
}

void Communicator::all_reduce(Elements values, ReduceOp op, const ReduceOptions& options) const {
  state_->run(Call::all_reduce(op), values.view(), values.view(), options);
}
Request Communicator::all_reduce_async(Elements values, ReduceOp op, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_reduce(op), values.view(), values.view(), options));
}
void Communicator::all_reduce(ConstElements input, Elements output, ReduceOp op, const ReduceOptions& options) const {
  state_->run(Call::all_reduce(op), input.view(), output.view(), options);
}
Request Communicator::all_reduce_async(ConstElements input, Elements output, ReduceOp op,
                                       const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_reduce(op), input.view(), output.view(), options));
}
void Communicator::reduce(Elements values, ReduceOp op, int root, const ReduceOptions& options) const {
  state_->run(Call::reduce(op, root), values.view(), values.view(), options);
}
Request Communicator::reduce_async(Elements values, ReduceOp op, int root, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::reduce(op, root), values.view(), values.view(), options));
}
void Communicator::reduce(ConstElements input, Elements output, ReduceOp op, int root,
                          const ReduceOptions& options) const {
  state_->run(Call::reduce(op, root), input.view(), output.view(), options);
}
Request Communicator::reduce_async(ConstElements input, Elements output, ReduceOp op, int root,
                                   const ReduceOptions& options) const {
  return Request(state_->run_async(Call::reduce(op, root), input.view(), output.view(), options));
}
void Communicator::reduce_scatter(ConstElements input, Elements output, ReduceOp op,
                                  const ReduceOptions& options) const {
  state_->run(Call::reduce_scatter(op), input.view(), output.view(), options);
}
Request Communicator::reduce_scatter_async(ConstElements input, Elements output, ReduceOp op,
                                           const ReduceOptions& options) const {
  return Request(state_->run_async(Call::reduce_scatter(op), input.view(), output.view(), options));
}
void Communicator::all_gather(ConstElements input, Elements output, const ReduceOptions& options) const {
  state_->run(Call::all_gather(), input.view(), output.view(), options);
}
Request Communicator::all_gather_async(ConstElements input, Elements output, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_gather(), input.view(), output.view(), options));
}
void Communicator::gather(ConstElements input, Elements output, int root, const ReduceOptions& options) const {
  state_->run(Call::gather(root), input.view(), output.view(), options);
}
Request Communicator::gather_async(ConstElements input, Elements output, int root, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::gather(root), input.view(), output.view(), options));
}
void Communicator::all_gather_v(ConstElements input, Elements output, std::span<const std::int64_t> rows,
                                const ReduceOptions& options) const {
  state_->run(Call::all_gather_v(rows), input.view(), output.view(), options);
}
Request Communicator::all_gather_v_async(ConstElements input, Elements output, std::span<const std::int64_t> rows,
                                         const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_gather_v(rows), input.view(), output.view(), options));
}
void Communicator::gather_v(ConstElements input, Elements output, std::span<const std::int64_t> rows, int root,
                            const ReduceOptions& options) const {
  state_->run(Call::gather_v(rows, root), input.view(), output.view(), options);
}
Request Communicator::gather_v_async(ConstElements input, Elements output, std::span<const std::int64_t> rows, int root,
                                     const ReduceOptions& options) const {
  return Request(state_->run_async(Call::gather_v(rows, root), input.view(), output.view(), options));
}
void Communicator::scatter(ConstElements input, Elements output, int root, const ReduceOptions& options) const {
  state_->run(Call::scatter(root), input.view(), output.view(), options);
}
Request Communicator::scatter_async(ConstElements input, Elements output, int root,
                                    const ReduceOptions& options) const {
  return Request(state_->run_async(Call::scatter(root), input.view(), output.view(), options));
}
void Communicator::scatter_v(ConstElements input, Elements output, std::span<const std::int64_t> rows, int root,
                             const ReduceOptions& options) const {
  state_->run(Call::scatter_v(rows, root), input.view(), output.view(), options);
}
Request Communicator::scatter_v_async(ConstElements input, Elements output, std::span<const std::int64_t> rows,
                                      int root, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::scatter_v(rows, root), input.view(), output.view(), options));
}
void Communicator::all_to_all(ConstElements input, Elements output, const ReduceOptions& options) const {
  state_->run(Call::all_to_all(), input.view(), output.view(), options);
}
Request Communicator::all_to_all_async(ConstElements input, Elements output, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_to_all(), input.view(), output.view(), options));
}
void Communicator::all_to_all_v(ConstElements input, Elements output, std::span<const std::int64_t> send_rows,
                                std::span<const std::int64_t> receive_rows, const ReduceOptions& options) const {
  state_->run(Call::all_to_all_v(send_rows, receive_rows), input.view(), output.view(), options);
}
Request Communicator::all_to_all_v_async(ConstElements input, Elements output, std::span<const std::int64_t> send_rows,
                                         std::span<const std::int64_t> receive_rows,
                                         const ReduceOptions& options) const {
  return Request(state_->run_async(Call::all_to_all_v(send_rows, receive_rows), input.view(), output.view(), options));
}
void Communicator::broadcast(Elements values, int root, const ReduceOptions& options) const {
  state_->run(Call::broadcast(root), values.view(), values.view(), options);
}
Request Communicator::broadcast_async(Elements values, int root, const ReduceOptions& options) const {
  return Request(state_->run_async(Call::broadcast(root), values.view(), values.view(), options));
}

Plan Communicator::prepare_all_reduce(Elements values, ReduceOp op, const ReduceOptions& options) const {
  return prepare_all_reduce(values.view(), values, op, options);
}
Plan Communicator::prepare_all_reduce(ConstElements input, Elements output, ReduceOp op,
                                      const ReduceOptions& options) const {
  const Item item{std::span(&input.view(), 1), std::span(&output.view(), 1)};
  return prepare_all_reduce(std::span(&item, 1), op, options);
}

void Communicator::send(ConstElements values, int target, const ReduceOptions& options) const {
  send(std::span(&values.view(), 1), target, options);
}
Request Communicator::send_async(ConstElements values, int target, const ReduceOptions& options) const {
  return send_async(std::span(&values.view(), 1), target, options);
}
void Communicator::recv(Elements values, int source, const ReduceOptions& options) const {
  recv(std::span(&values.view(), 1), source, options);
}
Request Communicator::recv_async(Elements values, int source, const ReduceOptions& options) const {
  return recv_async(std::span(&values.view(), 1), source, options);
}

}  // namespace lockstep
