// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/measurement.hpp"

#include "bench/perf/creation.hpp"
#include "bench/perf/gpus.hpp"
#include "bench/perf/in_flight.hpp"
#include "bench/perf/in_turn.hpp"
#include "bench/perf/limit.hpp"
#include "bench/perf/messages.hpp"
#include "bench/perf/mpi_call.hpp"
#include "bench/perf/mpi_list.hpp"
#include "bench/perf/our_buckets.hpp"
#include "bench/perf/our_call.hpp"
#include "bench/perf/our_list.hpp"
#include "bench/perf/peer.hpp"

#include <lockstep/interop/mpi.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace perf {
namespace {

/// Calls ncclAllReduce on the buffers of all replicas, and waits for it.
class NcclCall final : public Call {
 public:
  /// Local. `what` comes from nccl_peer_call(); `group` outlives the call.
  NcclCall(const Case& what, const Job& job, const Buffers& buffers, NcclGroup& group)
      : Call(what, job, buffers, Values::order_free), group_(group) {}
  void run() override { group_.all_reduce(inputs(), outputs(), what().count, what().dtype, what().op); }

 private:
  NcclGroup& group_;
};

void grow(std::vector<std::int64_t>& most, const std::vector<std::int64_t>& needed) {
  for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], needed[i]);
}

void grow(CallExtent& most, const CallExtent& needed) {
  grow(most.inputs, needed.inputs);
  grow(most.outputs, needed.outputs);
}

/// The buffers of each call of one measurement, as large as the largest case that has so many calls.
template <class CaseOf>
std::vector<Buffers> buffers_for(const RunPlan& plan, const Job& job, const Memory& memory, const CaseOf& case_of) {
  const std::vector<std::int64_t> nothing(job.devices.size());
  std::vector<Buffers> all;
  for (int call = 0;; ++call) {
    CallExtent needed{.inputs = nothing, .outputs = nothing};
    bool has_call = call == 0;
    for (const Case& what : plan.cases) {
      if (calls_of(what.form) <= call) continue;
      has_call = true;
      grow(needed, extent(case_of(what), job));
    }
    if (!has_call) return all;
    all.emplace_back(memory, needed);
  }
}

template <class One>
std::unique_ptr<Implementation> asynchronous(std::unique_ptr<One> call) {
  std::vector<std::unique_ptr<One>> calls;
  calls.push_back(std::move(call));
  return std::make_unique<InFlight<One>>(std::move(calls));
}

/// The calls of `form`. `make` makes one on the given buffers.
template <class One, class Make>
std::unique_ptr<Implementation> in_form(Form form, const std::vector<Buffers>& buffers, const Make& make) {
  std::vector<std::unique_ptr<One>> calls;
  for (int i = 0; i < calls_of(form); ++i) calls.push_back(make(buffers[static_cast<std::size_t>(i)]));
  if (form == Form::blocking) return std::move(calls.front());
  if (form == Form::async || form == Form::in_flight) return std::make_unique<InFlight<One>>(std::move(calls));
  std::vector<std::unique_ptr<Implementation>> turns;
  for (auto& call : calls) {
    if (form == Form::loop) {
      turns.push_back(std::move(call));
    } else {
      turns.push_back(asynchronous(std::move(call)));
    }
  }
  return std::make_unique<InTurn>(std::move(turns));
}

/// The implementations to be interleaved, in order.
using Implementations = std::vector<std::unique_ptr<Implementation>>;

std::vector<Outcome> run(Interleaving& turns, const Implementations& implementations) {
  std::vector<Implementation*> pointers;
  for (const auto& implementation : implementations) pointers.push_back(implementation.get());
  return turns.run(pointers);
}

/// The smallest median of the outcomes from number `first` on; none if there are none.
std::optional<double> fastest_us(const std::vector<Outcome>& outcomes, std::size_t first) {
  std::optional<double> fastest;
  for (const Outcome& outcome : std::span(outcomes).subspan(first)) {
    fastest = std::min(fastest.value_or(outcome.times_us.p50), outcome.times_us.p50);
  }
  return fastest;
}

}  // namespace

Measurement::Measurement(const Options& options, const Job& job, const RunPlan& plan,
                         std::optional<double> gpu_copy_gbs)
    : options_(options),
      job_(job),
      gpu_copy_gbs_(gpu_copy_gbs),
      memory_{memory_kind(options.memory), job.devices},
      peer_memory_(host_memory(options.mpi_memory, job.replicas_per_rank)),
      interleaving_(options),
      peer_comm_(MPI_COMM_WORLD),
      communicator_(lockstep::communicator_from(MPI_COMM_WORLD, {.local_replicas = job.replicas_per_rank})) {
  ours_ = buffers_for(plan, job, memory_, [](const Case& what) { return what; });
  if (options.compare == Peer::mpi)
    peers_ = buffers_for(plan, job, peer_memory_, [](const Case& what) { return peer_call(what).what; });
  if (options.compare == Peer::nccl) nccl_ = make_nccl_group(job);
}

std::unique_ptr<Implementation> Measurement::our_implementation(const Case& what) const {
  switch (traits(what.collective).kind) {
    case Kind::collective: break;
    case Kind::message:
      return in_form<OurMessage>(what.form, ours_, [&](const Buffers& buffers) {
        return std::make_unique<OurMessage>(what, job_, buffers, options_, communicator_);
      });
    case Kind::creation: return std::make_unique<OurCreation>(what, job_, communicator_);
  }
  return in_form<OurCall>(what.form, ours_, [&](const Buffers& buffers) {
    return std::make_unique<OurCall>(what, job_, buffers, options_, communicator_);
  });
}

std::unique_ptr<Implementation> Measurement::mpi_implementation(const PeerCall& peer) const {
  switch (traits(peer.what.collective).kind) {
    case Kind::collective: break;
    case Kind::message:
      return in_form<MpiMessage>(peer.what.form, peers_, [&](const Buffers& buffers) {
        return std::make_unique<MpiMessage>(peer, job_, buffers, peer_comm_.get());
      });
    case Kind::creation: return std::make_unique<MpiCreation>(peer.what, job_, peer_comm_.get());
  }
  return in_form<MpiCall>(peer.what.form, peers_, [&](const Buffers& buffers) {
    return std::make_unique<MpiCall>(peer, job_, buffers, options_, peer_comm_.get());
  });
}

std::unique_ptr<Implementation> Measurement::peer_implementation(const PeerCall& peer) const {
  switch (options_.compare) {
    case Peer::none: break;
    case Peer::mpi: return mpi_implementation(peer);
    case Peer::nccl: return std::make_unique<NcclCall>(peer.what, job_, ours_.front(), *nccl_);
  }
  return nullptr;
}

std::optional<double> Measurement::floor_us(const Case& what) const {
  const std::int64_t bytes = least_bytes(what, job_);
  if (!gpu_copy_gbs_ || bytes == 0) return std::nullopt;
  return static_cast<double>(bytes) / *gpu_copy_gbs_ * 1e-3;
}

/// On GPUs, P is the number of replicas, as in nccl-tests, since each GPU has a link of its own.
double Measurement::bus_factor(Collective collective) const {
  return traits(collective).bus_factor(memory_.kind.is_on_gpus ? job_.replicas() : job_.ranks);
}

Row Measurement::run(const Case& what) {
  const PeerCall peer = options_.compare == Peer::nccl ? nccl_peer_call(what) : peer_call(what);
  Implementations implementations;
  implementations.push_back(our_implementation(what));
  if (auto other = peer_implementation(peer)) implementations.push_back(std::move(other));
  const std::size_t first_limit = implementations.size();
  if (options_.limit) {
    for (auto& kernel : limit_implementations(what, job_, memory_.kind.make({})))
      implementations.push_back(std::move(kernel));
  }
  const std::vector<Outcome> outcomes = perf::run(interleaving_, implementations);

  const int calls = calls_of(what.form);
  const auto of_all_calls = [&](std::optional<double> us) { return us ? std::optional(*us * calls) : std::nullopt; };
  Row row{.identity = identity_of(what, job_), .bytes = what.bytes()};
  row.calls = calls;
  if (traits(what.collective).has_root) row.root = job_.root;
  row.bus_factor = bus_factor(what.collective);
  row.ours = outcomes.front();
  if (options_.compare != Peer::none) row.peer = outcomes[1];
  row.peer_name = peer_name(options_.compare);
  row.peer_call = peer.name();
  row.is_same_peer_call = peer.is_same;
  row.limit_us = of_all_calls(fastest_us(outcomes, first_limit));
  row.floor_us = of_all_calls(floor_us(what));
  return row;
}

std::vector<Row> Measurement::run(const ListCase& what) {
  const PeerCall peer = peer_call(what.as_one());
  ListCase peers_what = what;
  peers_what.dtype = peer.what.dtype;
  peers_what.op = peer.what.op;
  const ListTensors ours(what, memory_);
  std::optional<ListTensors> peers;
  Implementations implementations;
  const std::span<const ListMode> modes = modes_of(job_);
  for (const ListMode mode : modes) {
    if (mode == ListMode::gradient_buckets) {
      implementations.push_back(std::make_unique<OurBuckets>(ours, job_, options_, communicator_));
    } else {
      implementations.push_back(std::make_unique<OurList>(ours, job_, mode, options_, communicator_));
    }
  }
  if (options_.compare == Peer::mpi) {
    peers.emplace(peers_what, peer_memory_);
    for (const ListMode mode : {ListMode::one_by_one, ListMode::buckets}) {
      implementations.push_back(std::make_unique<MpiList>(*peers, peer, job_, mode, peer_comm_.get()));
    }
  }
  const std::size_t first_limit = implementations.size();
  if (options_.limit) {
    for (auto& kernel : limit_implementations(what.as_one(), job_, memory_.kind.make({}))) {
      implementations.push_back(std::move(kernel));
    }
  }
  const std::vector<Outcome> outcomes = perf::run(interleaving_, implementations);
  return list_rows(what, peer, outcomes, fastest_us(outcomes, first_limit));
}

std::vector<Row> Measurement::list_rows(const ListCase& what, const PeerCall& peer,
                                        const std::vector<Outcome>& outcomes, std::optional<double> limit_us) const {
  std::vector<Row> rows;
  const std::span<const ListMode> modes = modes_of(job_);
  for (std::size_t i = 0; i < modes.size(); ++i) {
    Row row{.identity = identity_of(what, modes[i], job_), .bytes = what.as_one().bytes()};
    row.tensors = static_cast<std::int64_t>(what.counts.size());
    row.bus_factor = bus_factor(Collective::all_reduce);
    row.ours = outcomes[i];
    row.limit_us = limit_us;
    row.floor_us = floor_us(what.as_one());
    row.peer_name = peer_name(options_.compare);
    row.is_same_peer_call = peer.is_same;
    if (options_.compare == Peer::mpi) {
      const Outcome& one_by_one = outcomes[modes.size()];
      const Outcome& buckets = outcomes[modes.size() + 1];
      ListMode mode = modes[i];
      // MPI has no call that takes a list: other modes than these two are compared with the faster of them
      if (mode != ListMode::one_by_one && mode != ListMode::buckets) {
        mode = one_by_one.times_us.p50 <= buckets.times_us.p50 ? ListMode::one_by_one : ListMode::buckets;
      }
      row.peer = mode == ListMode::one_by_one ? one_by_one : buckets;
      row.peer_call = fmt::format("{}, {}", peer.name(), to_string(mode));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace perf
