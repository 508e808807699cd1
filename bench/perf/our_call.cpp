// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/our_call.hpp"

#include <array>
#include <span>
#include <utility>

namespace perf {
namespace {

using lockstep::Communicator;
using lockstep::Request;

/// The arguments of all collectives; each takes what it needs.
struct Arguments {
  std::span<const lockstep::Item> items;
  lockstep::ReduceOp op;
  int root;
  std::span<const std::int64_t> rows;
  std::span<const std::int64_t> receive_rows;
  const lockstep::ReduceOptions& options;
};

struct Calls {
  void (*call)(Communicator&, const Arguments&);
  Request (*post)(Communicator&, const Arguments&);
};

/// In the order of the enumerators, whose last ones are other kinds of calls.
constexpr std::array<Calls, static_cast<std::size_t>(Collective::barrier) + 1> calls_table{{
    {[](Communicator& c, const Arguments& a) { c.all_reduce(a.items, a.op, a.options); },
     [](Communicator& c, const Arguments& a) { return c.all_reduce_async(a.items, a.op, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.reduce(a.items, a.op, a.root, a.options); },
     [](Communicator& c, const Arguments& a) { return c.reduce_async(a.items, a.op, a.root, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.reduce_scatter(a.items, a.op, a.options); },
     [](Communicator& c, const Arguments& a) { return c.reduce_scatter_async(a.items, a.op, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.all_gather(a.items, a.options); },
     [](Communicator& c, const Arguments& a) { return c.all_gather_async(a.items, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.all_gather_v(a.items, a.rows, a.options); },
     [](Communicator& c, const Arguments& a) { return c.all_gather_v_async(a.items, a.rows, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.gather(a.items, a.root, a.options); },
     [](Communicator& c, const Arguments& a) { return c.gather_async(a.items, a.root, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.gather_v(a.items, a.rows, a.root, a.options); },
     [](Communicator& c, const Arguments& a) { return c.gather_v_async(a.items, a.rows, a.root, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.scatter(a.items, a.root, a.options); },
     [](Communicator& c, const Arguments& a) { return c.scatter_async(a.items, a.root, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.scatter_v(a.items, a.rows, a.root, a.options); },
     [](Communicator& c, const Arguments& a) { return c.scatter_v_async(a.items, a.rows, a.root, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.all_to_all(a.items, a.options); },
     [](Communicator& c, const Arguments& a) { return c.all_to_all_async(a.items, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.all_to_all_v(a.items, a.rows, a.receive_rows, a.options); },
     [](Communicator& c, const Arguments& a) {
       return c.all_to_all_v_async(a.items, a.rows, a.receive_rows, a.options);
     }},
    {[](Communicator& c, const Arguments& a) { c.broadcast(a.items, a.root, a.options); },
     [](Communicator& c, const Arguments& a) { return c.broadcast_async(a.items, a.root, a.options); }},
    {[](Communicator& c, const Arguments& a) { c.barrier(a.options); },
     [](Communicator& c, const Arguments& a) { return c.barrier_async(a.options); }},
}};

}  // namespace

OurCall::OurCall(const Case& what, const Job& job, const Buffers& buffers, const Options& options,
                 Communicator communicator)
    : Call(what, job, buffers, values_of(options)),
      communicator_(std::move(communicator)),
      reduce_options_{.order = options.order, .name = {}} {
  for (const Region& input : inputs()) input_views_.emplace_back(input.view(what.dtype));
  for (const Region& output : outputs()) output_views_.push_back(output.view(what.result_dtype()));
  items_.push_back({input_views_, output_views_});
  count_rows(what, job);
  if (what.collective == Collective::all_reduce && options.prepared) {
    plan_.emplace(communicator_.prepare_all_reduce(items_, what.op, reduce_options_));
  }
}

/// A row is one element.
void OurCall::count_rows(const Case& what, const Job& job) {
  if (what.collective != Collective::all_to_all_v) {
    for (int replica = 0; replica < job.replicas(); ++replica)
      rows_.push_back(what.part_count(replica, job.replicas()));
    return;
  }
  for (int i = 0; i < job.replicas_per_rank; ++i) {
    const int own = job.first_replica(job.rank) + i;
    for (int other = 0; other < job.replicas(); ++other) {
      rows_.push_back(what.pair_count(own, other, job.replicas()));
      receive_rows_.push_back(what.pair_count(other, own, job.replicas()));
    }
  }
}

void OurCall::run() {
  if (plan_) return plan_->run();
  const Calls& calls = calls_table[static_cast<std::size_t>(what().collective)];
  calls.call(communicator_, {items_, what().op, job().root, rows_, receive_rows_, reduce_options_});
}

void OurCall::post(int /*step*/, std::vector<Request>& requests) {
  if (plan_) {
    requests.push_back(plan_->run_async());
    return;
  }
  const Calls& calls = calls_table[static_cast<std::size_t>(what().collective)];
  requests.push_back(calls.post(communicator_, {items_, what().op, job().root, rows_, receive_rows_, reduce_options_}));
}

void OurCall::wait_all(std::vector<Request>& requests) {
  for (Request& request : requests) request.wait();
}

}  // namespace perf
