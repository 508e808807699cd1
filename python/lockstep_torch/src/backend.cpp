// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "backend.hpp"

#include "arena_allocator.hpp"
#include "errors.hpp"
#include "group.hpp"

#include <ATen/Functions.h>
#include <lockstep/base/error.hpp>
#include <lockstep/collectives/detail/propagate.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <source_location>
#include <utility>

namespace lockstep_torch {
namespace {

using lockstep::Communicator;
using lockstep::Item;
using lockstep::Request;
using How = lockstep::ReduceOptions;
using Items = std::span<const Item>;

std::atomic<std::int64_t> microseconds_in_call{1000};

/// Whether this thread runs a callback of a future. Nothing else completes operations meanwhile, so calls block.
thread_local bool is_in_callback = false;

/// The calls between startCoalescing and endCoalescing of this thread; null outside of them.
thread_local std::unique_ptr<std::vector<c10::intrusive_ptr<Work>>> coalesced;

struct Backends {
  std::mutex mutex;
  std::vector<Backend*> all;  // guarded by mutex
};
Backends& backends() {
  static auto* const value = new Backends;  // never destroyed: Python may destroy backends after static destruction
  return *value;
}

[[noreturn]] void refuse(const std::string& text) { throw lockstep::Error(lockstep::Code::invalid_argument, text); }

void require_one(const Operands& operands, std::size_t count, const char* what) {
  if (count != 1) refuse(c10::str(operands.call(), ": ", count, " ", what, "; there must be one"));
}

void require_one_per_rank(const Operands& operands, std::size_t count, int size, const char* what) {
  if (count != static_cast<std::size_t>(size))
    refuse(c10::str(operands.call(), ": ", count, " ", what, " for a group of ", size, " ranks; there must be one for ",
                    "each rank"));
}

bool have_equal_sizes(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& one) { return one.numel() == tensors.front().numel(); });
}

void require_equal_sizes(const Operands& operands, const std::vector<at::Tensor>& tensors, const char* what) {
  if (!have_equal_sizes(tensors)) refuse(c10::str(operands.call(), ": the ", what, " have different sizes"));
}

std::vector<std::int64_t> sizes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& tensor : tensors) sizes.push_back(tensor.numel());
  return sizes;
}

at::ScalarType type_of(const std::vector<at::Tensor>& tensors) {
  return tensors.empty() ? at::kFloat : tensors.front().scalar_type();
}

}  // namespace

void set_time_in_call(std::chrono::microseconds time) { microseconds_in_call = time.count(); }
std::chrono::microseconds time_in_call() { return std::chrono::microseconds(microseconds_in_call.load()); }

void abort_all(const std::string& text) {
  const std::lock_guard lock(backends().mutex);
  for (Backend* const backend : backends().all) backend->abort_pending(text);
}

void shut_all_down() {
  const std::lock_guard lock(backends().mutex);
  for (Backend* const backend : backends().all) {
    backend->abort_pending("");
    backend->shutdown();
  }
}

Backend::Backend(const BackendOptions& options)
    : c10d::Backend(options.rank, options.size), options_(c10::make_intrusive<Options>("lockstep")) {
  if (options.timeout) options_->timeout = *options.timeout;
  with_torch_errors([&] { communicator_ = make_communicator(options); });
  if (communicator_->rank() != options.rank || communicator_->size() != options.size) {
    throw_error(c10::str("MPI says rank ", communicator_->rank(), " of ", communicator_->size(),
                         ", but torch.distributed says rank ", options.rank, " of ", options.size,
                         "; pass no rank and no world_size to init_process_group"));
  }
  const std::lock_guard lock(backends().mutex);
  backends().all.push_back(this);
}

Backend::~Backend() {
  {
    const std::lock_guard lock(backends().mutex);
    std::erase(backends().all, this);
  }
  shutdown();
}

Communicator Backend::communicator() const {
  const std::lock_guard lock(mutex_);
  if (!communicator_) throw_error("the process group has been destroyed");
  return *communicator_;
}

// ---- one call

Backend::WorkPtr Backend::post(const Call& call, const Tensors& outputs, const Add& add, const Blocking& blocking,
                               const Async& async, const std::string& name) {
  const Communicator communicator = this->communicator();
  How how{.name = name, .where = std::source_location()};
  std::uint64_t sequence = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!call.is_message) sequence = sequence_++;
    if (timeout_.count() > 0) how.fail_after = timeout_;
  }
  if (call.timeout != c10d::kUnsetTimeout)  // lockstep takes zero for the timeout of the group
    how.fail_after = std::max(call.timeout, std::chrono::milliseconds(1));
  auto operands = std::make_shared<Operands>(std::string(call.title).substr(std::string("lockstep:").size()));
  auto work = c10::make_intrusive<Work>(getRank(), call.type, call.title, sequence, outputs);
  const bool is_async = (call.is_async || coalesced != nullptr) && !is_in_callback;
  return with_torch_errors([&]() -> WorkPtr {
    const auto prepare = [&] { add(*operands); };
    if (call.is_message) {
      prepare();
    } else {
      lockstep::detail::propagate(communicator, prepare);
    }
    if (!is_async) {
      blocking(communicator, operands->items(), how);
      operands->finish();
      work->complete(nullptr);
      return work;
    }
    complete_later(async(communicator, operands->items(), how), work, operands);
    if (coalesced) coalesced->push_back(work);
    return work;
  });
}

void Backend::complete_later(Request request, const c10::intrusive_ptr<Work>& work,
                             const std::shared_ptr<Operands>& operands) {
  const auto end = [work, operands](const lockstep::Error* error) {
    std::exception_ptr thrown;
    try {
      if (error != nullptr) throw_error(error->what());
      operands->finish();
    } catch (...) {
      thrown = std::current_exception();
    }
    work->complete(thrown);
  };
  try {
    if (request.wait_for(time_in_call())) {
      end(nullptr);
      return;
    }
  } catch (const lockstep::Error& error) {
    end(&error);
    return;
  }
  ++*pending_;
  try {
    request.when_complete([end, pending = pending_](const lockstep::Error* error) {
      const bool outer = std::exchange(is_in_callback, true);
      end(error);
      is_in_callback = outer;
      --*pending;
    });
  } catch (const lockstep::Error&) {  // MPI does not permit a progress thread
    --*pending_;
    try {
      request.wait();
      end(nullptr);
    } catch (const lockstep::Error& error) {
      end(&error);
    }
  }
}

// ---- reductions and broadcast

Backend::WorkPtr Backend::reduce_all(Tensors& tensors, const Call& call, const c10d::ReduceOp& op) {
  lockstep::ReduceOp ours{};
  return post(
      call, tensors,
      [&](Operands& operands) {
        ours = reduce_op(operands.call(), op, type_of(tensors));
        for (const at::Tensor& tensor : tensors) {
          if (reduce_op(operands.call(), op, tensor.scalar_type()) != ours)
            refuse(operands.call() + ": bool tensors and other tensors cannot be in one call");
          operands.add_in_place(tensor);
        }
      },
      [&](const Communicator& c, Items items, const How& how) { c.all_reduce(items, ours, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.all_reduce_async(items, ours, how); });
}

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return reduce_all(tensors, {c10d::OpType::ALLREDUCE, "lockstep:all_reduce", options.asyncOp, options.timeout},
                    options.reduceOp);
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return reduce_all(tensors,
                    {c10d::OpType::ALLREDUCE_COALESCED, "lockstep:all_reduce", options.asyncOp, options.timeout},
                    options.reduceOp);
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  lockstep::ReduceOp ours{};
  const int root = static_cast<int>(options.rootRank);
  return post(
      {c10d::OpType::REDUCE, "lockstep:reduce", options.asyncOp, options.timeout}, tensors,
      [&](Operands& operands) {
        require_one(operands, tensors.size(), "tensors");
        ours = reduce_op(operands.call(), options.reduceOp, type_of(tensors));
        if (getRank() == root) {
          operands.add_in_place(tensors[0]);
        } else {
          operands.add(tensors[0], {});
        }
      },
      [&](const Communicator& c, Items items, const How& how) { c.reduce(items, ours, root, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.reduce_async(items, ours, root, how); });
}

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  return post(
      {c10d::OpType::BROADCAST, "lockstep:broadcast", options.asyncOp, options.timeout}, tensors,
      [&](Operands& operands) {
        for (const at::Tensor& tensor : tensors) {
          if (getRank() == root) {
            operands.add(tensor, {});
          } else {
            operands.add({}, tensor);
          }
        }
      },
      [&](const Communicator& c, Items items, const How& how) { c.broadcast(items, root, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.broadcast_async(items, root, how); });
}

// ---- gathers and scatters

/// One item for each input; `outputs` has a list of tensors by rank for each input.
Backend::WorkPtr Backend::gather_all(const TensorLists& outputs, const Tensors& inputs, const Call& call) {
  Tensors all;
  for (const Tensors& list : outputs) all.insert(all.end(), list.begin(), list.end());
  std::vector<std::int64_t> rows;  // by item and rank; empty if all ranks have equal sizes
  return post(
      call, all,
      [&](Operands& operands) {
        if (inputs.empty() || outputs.size() != inputs.size())
          refuse(c10::str(operands.call(), ": ", inputs.size(), " inputs, and ", outputs.size(), " lists of outputs"));
        const bool is_even = std::all_of(outputs.begin(), outputs.end(), have_equal_sizes);
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          require_one_per_rank(operands, outputs[k].size(), getSize(), "outputs");
          const at::Tensor joined = operands.join_outputs(outputs[k]);
          operands.add(inputs[k], joined);
          if (is_even) continue;
          for (const at::Tensor& output : outputs[k])
            rows.push_back(output.numel() * elements_per_element(output.scalar_type()));
        }
      },
      [&](const Communicator& c, Items items, const How& how) {
        rows.empty() ? c.all_gather(items, how) : c.all_gather_v(items, rows, how);
      },
      [&](const Communicator& c, Items items, const How& how) {
        return rows.empty() ? c.all_gather_async(items, how) : c.all_gather_v_async(items, rows, how);
      });
}

Backend::WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return gather_all(outputs, inputs,
                    {c10d::OpType::ALLGATHER, "lockstep:all_gather", options.asyncOp, options.timeout});
}

/// Here `outputs` has a list of tensors by input for each rank.
Backend::WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  TensorLists by_input(inputs.size());
  for (const Tensors& of_rank : outputs) {
    for (std::size_t k = 0; k < inputs.size() && k < of_rank.size(); ++k) by_input[k].push_back(of_rank[k]);
  }
  return gather_all(by_input, inputs,
                    {c10d::OpType::ALLGATHER_COALESCED, "lockstep:all_gather", options.asyncOp, options.timeout});
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  return post(
      {c10d::OpType::_ALLGATHER_BASE, "lockstep:all_gather", options.asyncOp, options.timeout}, {output},
      [&](Operands& operands) { operands.add(input, output); },
      [](const Communicator& c, Items items, const How& how) { c.all_gather(items, how); },
      [](const Communicator& c, Items items, const How& how) { return c.all_gather_async(items, how); });
}

Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  return post(
      {c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED, "lockstep:all_gather", options.asyncOp, options.timeout}, outputs,
      [&](Operands& operands) {
        if (outputs.size() != inputs.size())
          refuse(c10::str(operands.call(), ": ", inputs.size(), " inputs, and ", outputs.size(), " outputs"));
        for (std::size_t k = 0; k < inputs.size(); ++k) operands.add(inputs[k], outputs[k]);
      },
      [](const Communicator& c, Items items, const How& how) { c.all_gather(items, how); },
      [](const Communicator& c, Items items, const How& how) { return c.all_gather_async(items, how); });
}

Backend::WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  return post(
      {c10d::OpType::GATHER, "lockstep:gather", options.asyncOp, options.timeout},
      outputs.empty() ? Tensors() : outputs[0],
      [&](Operands& operands) {
        require_one(operands, inputs.size(), "inputs");
        if (getRank() != root) return operands.add(inputs[0], {});
        require_one(operands, outputs.size(), "lists of outputs");
        require_one_per_rank(operands, outputs[0].size(), getSize(), "outputs");
        require_equal_sizes(operands, outputs[0], "outputs");
        operands.add(inputs[0], operands.join_outputs(outputs[0]));
      },
      [&](const Communicator& c, Items items, const How& how) { c.gather(items, root, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.gather_async(items, root, how); });
}

Backend::WorkPtr Backend::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                             const c10d::GatherOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = getRank() == root;
  return post(
      {c10d::OpType::GATHER, "lockstep:gather", options.asyncOp, options.timeout},
      is_root ? Tensors{output} : Tensors(),
      [&](Operands& operands) { operands.add(input, is_root ? std::optional(output) : std::nullopt); },
      [&](const Communicator& c, Items items, const How& how) { c.gather(items, root, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.gather_async(items, root, how); });
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  return post(
      {c10d::OpType::SCATTER, "lockstep:scatter", options.asyncOp, options.timeout}, outputs,
      [&](Operands& operands) {
        require_one(operands, outputs.size(), "outputs");
        if (getRank() != root) return operands.add({}, outputs[0]);
        require_one(operands, inputs.size(), "lists of inputs");
        require_one_per_rank(operands, inputs[0].size(), getSize(), "inputs");
        require_equal_sizes(operands, inputs[0], "inputs");
        operands.add(operands.join(inputs[0]), outputs[0]);
      },
      [&](const Communicator& c, Items items, const How& how) { c.scatter(items, root, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.scatter_async(items, root, how); });
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  lockstep::ReduceOp ours{};
  bool is_even = true;
  return post(
      {c10d::OpType::REDUCE_SCATTER, "lockstep:reduce_scatter", options.asyncOp, options.timeout}, outputs,
      [&](Operands& operands) {
        require_one(operands, outputs.size(), "outputs");
        require_one(operands, inputs.size(), "lists of inputs");
        require_one_per_rank(operands, inputs[0].size(), getSize(), "inputs");
        ours = reduce_op(operands.call(), options.reduceOp, type_of(outputs));
        const at::Tensor joined = operands.join(inputs[0]);
        is_even = have_equal_sizes(inputs[0]);
        if (is_even) return operands.add(joined, outputs[0]);
        // lockstep scatters parts of equal sizes only, so each rank reduces everything, and takes its part
        const auto rank = static_cast<std::size_t>(getRank());
        if (outputs[0].numel() != inputs[0][rank].numel())
          refuse(c10::str(operands.call(), ": the output has ", outputs[0].numel(), " elements, but input ", rank,
                          " has ", inputs[0][rank].numel()));
        std::int64_t begin = 0;
        for (std::size_t r = 0; r < rank; ++r) begin += inputs[0][r].numel();
        operands.add_in_place(joined);
        operands.copy_at_the_end(outputs[0], joined.narrow(0, begin, outputs[0].numel()).view(outputs[0].sizes()));
      },
      [&](const Communicator& c, Items items, const How& how) {
        is_even ? c.reduce_scatter(items, ours, how) : c.all_reduce(items, ours, how);
      },
      [&](const Communicator& c, Items items, const How& how) {
        return is_even ? c.reduce_scatter_async(items, ours, how) : c.all_reduce_async(items, ours, how);
      });
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& options) {
  lockstep::ReduceOp ours{};
  return post(
      {c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "lockstep:reduce_scatter", options.asyncOp, options.timeout},
      outputs,
      [&](Operands& operands) {
        if (outputs.size() != inputs.size())
          refuse(c10::str(operands.call(), ": ", inputs.size(), " inputs, and ", outputs.size(), " outputs"));
        ours = reduce_op(operands.call(), options.reduceOp, type_of(outputs));
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          if (reduce_op(operands.call(), options.reduceOp, inputs[k].scalar_type()) != ours)
            refuse(operands.call() + ": bool tensors and other tensors cannot be in one call");
          operands.add(inputs[k], outputs[k]);
        }
      },
      [&](const Communicator& c, Items items, const How& how) { c.reduce_scatter(items, ours, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.reduce_scatter_async(items, ours, how); });
}

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                                        std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& options) {
  const bool is_even = output_rows.empty() && input_rows.empty();
  std::vector<std::int64_t> send;
  std::vector<std::int64_t> receive;
  return post(
      {c10d::OpType::ALLTOALL_BASE, "lockstep:all_to_all", options.asyncOp, options.timeout}, {output},
      [&](Operands& operands) {
        if (is_even) return operands.add(input, output);
        const auto rows = [&](const at::Tensor& tensor, const std::vector<std::int64_t>& given, const char* what) {
          if (tensor.dim() == 0) refuse(c10::str(operands.call(), ": the ", what, " has no dimension to split"));
          if (!given.empty()) {
            require_one_per_rank(operands, given.size(), getSize(), "split sizes");
            return given;
          }
          if (tensor.size(0) % getSize() != 0)
            refuse(c10::str(operands.call(), ": the ", what, " has ", tensor.size(0), " rows, which ", getSize(),
                            " ranks cannot share evenly; pass split sizes"));
          return std::vector<std::int64_t>(static_cast<std::size_t>(getSize()), tensor.size(0) / getSize());
        };
        send = rows(input, input_rows, "input");
        receive = rows(output, output_rows, "output");
        operands.add(input, output, input.size(0), output.size(0));
      },
      [&](const Communicator& c, Items items, const How& how) {
        is_even ? c.all_to_all(items, how) : c.all_to_all_v(items, send, receive, how);
      },
      [&](const Communicator& c, Items items, const How& how) {
        return is_even ? c.all_to_all_async(items, how) : c.all_to_all_v_async(items, send, receive, how);
      });
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  std::vector<std::int64_t> send;
  std::vector<std::int64_t> receive;
  return post(
      {c10d::OpType::ALLTOALL, "lockstep:all_to_all", options.asyncOp, options.timeout}, outputs,
      [&](Operands& operands) {
        require_one_per_rank(operands, inputs.size(), getSize(), "inputs");
        require_one_per_rank(operands, outputs.size(), getSize(), "outputs");
        send = sizes_of(inputs);
        receive = sizes_of(outputs);
        const at::Tensor input = operands.join(inputs);
        const at::Tensor output = operands.join_outputs(outputs);
        operands.add(input, output, input.numel(), output.numel());
      },
      [&](const Communicator& c, Items items, const How& how) { c.all_to_all_v(items, send, receive, how); },
      [&](const Communicator& c, Items items, const How& how) {
        return c.all_to_all_v_async(items, send, receive, how);
      });
}

// ---- barriers and messages

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  return post(
      {c10d::OpType::BARRIER, "lockstep:barrier", options.asyncOp, options.timeout}, {}, [](Operands&) {},
      [](const Communicator& c, Items, const How& how) { c.barrier(how); },
      [](const Communicator& c, Items, const How& how) { return c.barrier_async(how); });
}

/// The error of every barrier names the missing ranks, so there is no other kind of barrier.
void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool) {
  c10d::BarrierOptions synchronous = options;
  synchronous.asyncOp = false;
  barrier(synchronous);
}

namespace {

std::string name_of_tag(int tag) { return tag == 0 ? std::string() : c10::str("tag ", tag); }

std::vector<lockstep::ConstTensorView> inputs_of(Items items) {
  std::vector<lockstep::ConstTensorView> views;
  for (const Item& item : items) views.push_back(item.inputs[0]);
  return views;
}
std::vector<lockstep::TensorView> outputs_of(Items items) {
  std::vector<lockstep::TensorView> views;
  for (const Item& item : items) views.push_back(item.outputs[0]);
  return views;
}

}  // namespace

Backend::WorkPtr Backend::send(Tensors& tensors, int target, int tag) {
  return post(
      {c10d::OpType::SEND, "lockstep:send", true, c10d::kUnsetTimeout, true}, {},
      [&](Operands& operands) {
        for (const at::Tensor& tensor : tensors) operands.add(tensor, {});
      },
      [&](const Communicator& c, Items items, const How& how) { c.send(inputs_of(items), target, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.send_async(inputs_of(items), target, how); },
      name_of_tag(tag));
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int source, int tag) {
  return post(
      {c10d::OpType::RECV, "lockstep:recv", true, c10d::kUnsetTimeout, true}, tensors,
      [&](Operands& operands) {
        for (const at::Tensor& tensor : tensors) operands.add({}, tensor);
      },
      [&](const Communicator& c, Items items, const How& how) { c.recv(outputs_of(items), source, how); },
      [&](const Communicator& c, Items items, const How& how) { return c.recv_async(outputs_of(items), source, how); },
      name_of_tag(tag));
}

void Backend::startCoalescing() {
  if (coalesced) throw_error("startCoalescing was called twice without endCoalescing");
  coalesced = std::make_unique<std::vector<c10::intrusive_ptr<Work>>>();
}

Backend::WorkPtr Backend::endCoalescing() {
  if (!coalesced) throw_error("endCoalescing was called without startCoalescing");
  const auto calls = std::exchange(coalesced, nullptr);
  auto work = c10::make_intrusive<Work>(getRank(), c10d::OpType::COALESCED, nullptr, getSequenceNumberForGroup(),
                                        std::vector<at::Tensor>());
  struct Rest {
    std::mutex mutex;
    std::size_t count;         // of the calls that have not ended; guarded by mutex
    std::exception_ptr error;  // the first one; guarded by mutex
  };
  const auto rest = std::make_shared<Rest>();
  rest->count = calls->size() + 1;
  const auto end = [work, rest](const std::exception_ptr& error) {
    {
      const std::lock_guard lock(rest->mutex);
      if (error && !rest->error) rest->error = error;
      if (--rest->count > 0) return;
    }
    work->complete(rest->error);
  };
  for (const auto& call : *calls)
    call->getFuture()->addCallback([end](c10::ivalue::Future& future) { end(future.exception_ptr()); });
  end(nullptr);
  return work;
}

// ---- the group

std::uint64_t Backend::getSequenceNumberForGroup() {
  const std::lock_guard lock(mutex_);
  return sequence_;
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  options_->timeout = timeout;
}

bool Backend::supportsTensorAlloc(c10::DeviceIndex) { return true; }

at::Tensor Backend::allocateTensor(long count, at::TensorOptions options) { return arena_tensor(count, options); }

void Backend::abort() {
  if (const std::lock_guard lock(mutex_); communicator_) communicator_->abort("abort() of the process group");
}

void Backend::abort_pending(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (!communicator_) return;
  if (!text.empty()) {
    communicator_->abort(text);
  } else if (*pending_ > 0) {
    communicator_->abort("the process ends, but operations of the process group are pending");
  }
}

void Backend::shutdown() {
  std::optional<Communicator> last;
  {
    const std::lock_guard lock(mutex_);
    last = std::exchange(communicator_, std::nullopt);
  }
  without_gil([&] { last.reset(); });  // waits for pending operations, whose callbacks may need the GIL
}

}  // namespace lockstep_torch
