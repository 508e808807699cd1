// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/calls.hpp"

#include <span>

namespace lockstep::simulation {
namespace {

/// Seeds of kept_seeds have been found with these.
bool may_be_asynchronous(Kind kind) { return kind != Kind::reduce && kind != Kind::all_gather && kind != Kind::gather; }

}  // namespace

Request start(const Communicator& comm, const Operation& operation, const Item& item) {
  const std::span<const Item> items(&item, 1);
  switch (operation.kind) {
    case Kind::all_reduce: return comm.all_reduce_async(items, ReduceOp::sum);
    case Kind::reduce_scatter: return comm.reduce_scatter_async(items, ReduceOp::sum);
    case Kind::reduce: return comm.reduce_async(items, ReduceOp::sum, operation.root);
    case Kind::all_gather: return comm.all_gather_async(items);
    case Kind::gather: return comm.gather_async(items, operation.root);
    case Kind::broadcast: return comm.broadcast_async(items, operation.root);
    case Kind::scatter: return comm.scatter_async(items, operation.root);
    case Kind::all_to_all: return comm.all_to_all_async(items);
    case Kind::barrier: break;
  }
  return comm.barrier_async();
}

void call(const Communicator& comm, const Operation& operation, const Item& item) {
  if (operation.is_asynchronous && may_be_asynchronous(operation.kind)) return start(comm, operation, item).wait();
  const std::span<const Item> items(&item, 1);
  switch (operation.kind) {
    case Kind::all_reduce: return comm.all_reduce(items, ReduceOp::sum);
    case Kind::reduce: return comm.reduce(items, ReduceOp::sum, operation.root);
    case Kind::reduce_scatter: return comm.reduce_scatter(items, ReduceOp::sum);
    case Kind::all_gather: return comm.all_gather(items);
    case Kind::gather: return comm.gather(items, operation.root);
    case Kind::broadcast: return comm.broadcast(items, operation.root);
    case Kind::scatter: return comm.scatter(items, operation.root);
    case Kind::all_to_all: return comm.all_to_all(items);
    case Kind::barrier: return comm.barrier();
  }
}

void run_plan(const Communicator& comm, const Operation& operation, const Item& item, bool prepares) {
  const std::span<const Item> items(&item, 1);
  const ReduceOptions options;  // errors show where the call is, which must not differ
  if (!prepares) {
    comm.all_reduce(items, ReduceOp::sum, options);
    return comm.all_reduce(items, ReduceOp::sum, options);
  }
  Plan plan = comm.prepare_all_reduce(items, ReduceOp::sum, options);
  if (operation.is_asynchronous) {
    plan.run_async().wait();
  } else {
    plan.run();
  }
  plan.run();
}

}  // namespace lockstep::simulation
