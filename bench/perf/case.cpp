// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/case.hpp"

#include <algorithm>

namespace perf {
namespace {

std::int64_t elements(Length length, const Case& what, int replica, int replicas) {
  switch (length) {
    case Length::none: return 0;
    case Length::whole: return what.count;
    case Length::part: return what.part_count(replica, replicas);
  }
  return 0;
}

bool has_parts(Collective collective) {
  const Traits& kind = traits(collective);
  return kind.input == Length::part || kind.output == Length::part || kind.expected == Expected::own_parts_of_inputs;
}

void add_sizes(std::vector<Case>& all, Case what, const Options& options, const Job& job) {
  for (const std::int64_t bytes : options.sizes_bytes()) {
    what.count = count_elements(bytes, what.dtype);
    // each replica has the same number of elements, or that number on average; at least one
    if (has_parts(what.collective))
      what.count = std::max<std::int64_t>(1, what.count / job.replicas()) * job.replicas();
    all.push_back(what);
  }
}

void add_types(std::vector<Case>& all, Case what, const Options& options, const Job& job) {
  if (!has_sizes(what.collective)) {
    what.count = 0;
    all.push_back(what);
    return;
  }
  for (const lockstep::DType dtype : options.dtypes) {
    what.dtype = dtype;
    if (!what.reduces()) {
      add_sizes(all, what, options, job);
      continue;
    }
    for (const lockstep::ReduceOp op : options.ops) {
      what.op = op;
      if (lockstep::supports(op, dtype)) add_sizes(all, what, options, job);
    }
  }
}

}  // namespace

std::int64_t Case::input_bytes(int replica, int replicas) const noexcept {
  return elements(traits(collective).input, *this, replica, replicas) *
         static_cast<std::int64_t>(lockstep::size_of(dtype));
}

std::int64_t Case::output_bytes(int replica, int replicas) const noexcept {
  return elements(traits(collective).output, *this, replica, replicas) *
         static_cast<std::int64_t>(lockstep::size_of(result_dtype()));
}

std::int64_t Case::pair_count(int source, int target, int replicas) const noexcept {
  const std::int64_t even = count / replicas;
  // the last of an odd number of replicas has no partner to be uneven with
  const bool is_odd_one = replicas % 2 == 1 && (source == replicas - 1 || target == replicas - 1);
  if (!traits(collective).is_uneven || is_odd_one) return even;
  return (source + target) % 2 == 0 ? even + even / 2 : even - even / 2;
}

std::vector<Case> cases(const Options& options, const Job& job) {
  std::vector<Case> all;
  for (const Collective collective : options.collectives) {
    if (traits(collective).kind == Kind::message && job.ranks == 1) continue;
    for (const Form form : options.forms_of(collective)) {
      add_types(all, {.collective = collective, .form = form}, options, job);
    }
  }
  return all;
}

}  // namespace perf
