// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "simulation/calls.hpp"

#include <lockstep/base/error.hpp>

#include "simulation/allocations.hpp"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <span>
#include <vector>

namespace lockstep::simulation {
namespace {

/// Seeds of kept_seeds have been found with these.
bool may_be_asynchronous(Kind kind) {
  return kind != Kind::reduce && kind != Kind::all_gather && kind != Kind::gather && kind != Kind::messages;
}

constexpr std::size_t most_ranks = 64;
constinit std::array<std::array<int, most_ranks>, most_ranks> unmatched_calls{};  // sends less receives

int& unmatched(int sender, int receiver) noexcept {
  return unmatched_calls[static_cast<std::size_t>(sender)][static_cast<std::size_t>(receiver)];
}

/// Throws the first error when all messages have ended.
void send_and_receive(const Communicator& comm, const Operation& operation, const Item& item) {
  const Partners others = partners(operation, comm.rank(), comm.size());
  const auto count = static_cast<std::size_t>(number_of_messages(operation));
  std::exception_ptr error;
  const auto note_error = [&error](const auto& make_call) {
    try {
      make_call();
    } catch (const std::exception&) {
      if (!error) error = std::current_exception();
    }
  };
  std::vector<Request> requests;
  {
    const CodeOf code(CodeOf::simulation);
    requests.reserve(2 * count);
  }
  for (std::size_t k = 0; k < count && !error; ++k) {
    --unmatched(others.source, comm.rank());
    note_error([&] { requests.push_back(comm.recv_async(item.outputs.subspan(k, 1), others.source)); });
  }
  for (std::size_t k = 0; k < count && !error; ++k) {
    ++unmatched(comm.rank(), others.target);
    const auto tensors = item.inputs.subspan(k, 1);
    if (operation.is_asynchronous) {
      note_error([&] { requests.push_back(comm.send_async(tensors, others.target)); });
    } else {
      note_error([&] { comm.send(tensors, others.target); });
    }
  }
  for (Request& request : requests) note_error([&] { request.wait(); });
  if (error) std::rethrow_exception(error);
}

}  // namespace

Request start(const Communicator& comm, const Operation& operation, const Item& item) {
  const CodeOf code(CodeOf::library);
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
    case Kind::messages: std::abort();  // has several requests
    case Kind::barrier: break;
  }
  return comm.barrier_async();
}

void call(const Communicator& comm, const Operation& operation, const Item& item) {
  const CodeOf code(CodeOf::library);
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
    case Kind::messages: return send_and_receive(comm, operation, item);
    case Kind::barrier: return comm.barrier();
  }
}

void run_plan(const Communicator& comm, const Operation& operation, const Item& item, bool prepares) {
  const CodeOf code(CodeOf::library);
  const std::span<const Item> items(&item, 1);
  const ReduceOptions options;  // errors show where the call is, which must not differ
  if (!prepares) {
    comm.all_reduce(items, ReduceOp::sum, options);
    return comm.all_reduce(items, ReduceOp::sum, options);
  }
  const auto prepare = [&] {
    try {
      return comm.prepare_all_reduce(items, ReduceOp::sum, options);
    } catch (const std::bad_alloc& error) {
      comm.abort(error.what());  // it tells nothing to others
      throw;
    }
  };
  Plan plan = prepare();
  if (operation.is_asynchronous) {
    plan.run_async().wait();
  } else {
    plan.run();
  }
  plan.run();
}

void forget_messages() noexcept { unmatched_calls = {}; }

bool are_matched(int sender, int receiver) noexcept { return unmatched(sender, receiver) == 0; }

}  // namespace lockstep::simulation
