// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/run_plan.hpp"

#include "bench/perf/call.hpp"
#include "bench/perf/limit.hpp"
#include "bench/perf/mpi_call.hpp"
#include "bench/perf/peer.hpp"

#include <algorithm>
#include <numeric>

namespace perf {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::int64_t bytes_of(const Case& what, const Options& options, const Job& job) {
  // the libraries need temporary memory, at least as much as a result
  const auto side = [&](const Case& call) {
    const CallExtent needed = extent(call, job);
    return sum(needed.inputs) + 2 * sum(needed.outputs);
  };
  std::int64_t bytes = side(what);
  if (options.compare == Peer::mpi) {
    const Case peers = peer_call(what).what;
    bytes += side(peers) + MpiCall::scratch_bytes(peers, job);
  }
  bytes *= calls_of(what.form);
  if (options.limit) bytes += 2 * limit_bytes(least_traffic(what, job), Placement::out_of_place);
  return bytes;
}

std::int64_t bytes_of(const ListCase& what, const Options& options, const Job& job) {
  // tensors, buckets, and temporary memory of the libraries
  const std::int64_t copies = 3 * job.replicas_per_rank;
  std::int64_t bytes = copies * ListTensors::bytes(what);
  if (options.compare == Peer::mpi) {
    ListCase peers = what;
    peers.dtype = peer_call(what.as_one()).what.dtype;
    bytes += copies * ListTensors::bytes(peers);
  }
  if (options.limit) bytes += 2 * limit_bytes(least_traffic(what.as_one(), job), Placement::in_place);
  return bytes;
}

/// In place needs a result of the input's dtype.
std::vector<ListCase> lists(const Options& options) {
  std::vector<ListCase> all;
  for (const lockstep::DType dtype : options.dtypes) {
    for (const lockstep::ReduceOp op : options.ops) {
      if (!lockstep::supports(op, dtype) || lockstep::result_dtype(op, dtype) != dtype) continue;
      for (const Form form : options.forms_of(Collective::all_reduce)) {
        all.push_back({.name = options.list, .counts = options.list_counts, .dtype = dtype, .op = op, .form = form});
      }
    }
  }
  return all;
}

}  // namespace

RunPlan run_plan_of(const Options& options, const Job& job) {
  if (!options.list.empty()) return {.cases = {}, .lists = lists(options)};
  return {.cases = cases(options, job), .lists = {}};
}

Identity identity_of(const Case& what, const Job& job) {
  return {.collective = traits(what.collective).name,
          .list = {},
          .mode = {},
          .form = to_string(what.form),
          .count = what.count,
          .dtype = has_sizes(what.collective) ? lockstep::to_string(what.dtype) : std::string_view(),
          .op = what.reduces() ? lockstep::to_string(what.op) : std::string_view(),
          .in_place = what.placement == Placement::in_place,
          .replicas_per_rank = job.replicas_per_rank};
}

Identity identity_of(const ListCase& what, ListMode mode, const Job& job) {
  Identity identity = identity_of(what.as_one(), job);
  identity.list = what.name;
  identity.mode = to_string(mode);
  return identity;
}

std::vector<Identity> identities_of(const RunPlan& plan, const Options& options, const Job& job) {
  std::vector<Identity> all;
  for (Case what : plan.cases) {
    for (const Placement placement : options.placements) {
      what.placement = placement;
      if (what.is_possible()) all.push_back(identity_of(what, job));
    }
  }
  for (const ListCase& what : plan.lists) {
    for (const ListMode mode : modes_of(job)) all.push_back(identity_of(what, mode, job));
  }
  return all;
}

std::int64_t memory_bytes(const RunPlan& plan, const Options& options, const Job& job) {
  std::int64_t most = 0;
  for (const Case& what : plan.cases) most = std::max(most, bytes_of(what, options, job));
  for (const ListCase& what : plan.lists) most = std::max(most, bytes_of(what, options, job));
  return most;
}

}  // namespace perf
