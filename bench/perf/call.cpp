// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/call.hpp"

namespace perf {
namespace {

/// Bytes of each input and of each output of this rank.
std::vector<std::int64_t> inputs_of(const Case& what, const Job& job) {
  const Traits& kind = traits(what.collective);
  std::vector<std::int64_t> bytes;
  if (kind.input == Length::none) return bytes;
  const int count = kind.input_holder == Holder::every_rank ? job.replicas_per_rank : job.is_root() ? 1 : 0;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(what.input_bytes(job.first_replica(job.rank) + i, job.replicas()));
  }
  return bytes;
}

std::vector<std::int64_t> outputs_of(const Case& what, const Job& job) {
  const Traits& kind = traits(what.collective);
  std::vector<std::int64_t> bytes;
  if (kind.output == Length::none || (kind.output_holder == Holder::root && !job.is_root())) return bytes;
  if (kind.kind == Kind::message && !job.has_partner()) return bytes;
  for (int i = 0; i < job.replicas_per_rank; ++i) {
    bytes.push_back(what.output_bytes(job.first_replica(job.rank) + i, job.replicas()));
  }
  return bytes;
}

std::vector<Pattern> expected_patterns(const Case& what, const Job& job, Values values) {
  std::vector<Pattern> patterns;
  switch (traits(what.collective).expected) {
    case Expected::nothing: break;
    case Expected::reduction:
    case Expected::own_part_of_reduction:
      patterns.push_back(Pattern::result(what.dtype, what.op, job.replicas(), values));
      break;
    case Expected::all_inputs:
    case Expected::own_parts_of_inputs:
      for (int replica = 0; replica < job.replicas(); ++replica) {
        patterns.push_back(Pattern::input(what.dtype, what.op, replica, values));
      }
      break;
    case Expected::root_input:
    case Expected::own_part_of_root_input:
      patterns.push_back(Pattern::input(what.dtype, what.op, job.first_replica(job.root), values));
      break;
    case Expected::partner_input:
      for (int i = 0; job.has_partner() && i < job.replicas_per_rank; ++i) {
        patterns.push_back(Pattern::input(what.dtype, what.op, job.first_replica(job.partner()) + i, values));
      }
      break;
  }
  return patterns;
}

}  // namespace

CallExtent extent(const Case& what, const Job& job) {
  CallExtent all;
  for (int i = 0; i < job.replicas_per_rank; ++i) {
    const int replica = job.first_replica(job.rank) + i;
    all.inputs.push_back(whole_lines(what.input_bytes(replica, job.replicas())));
    all.outputs.push_back(whole_lines(what.output_bytes(replica, job.replicas())));
  }
  return all;
}

Call::Call(const Case& what, const Job& job, const Buffers& buffers, Values values)
    : what_(what),
      job_(job),
      inputs_(buffers.inputs().regions(inputs_of(what, job))),
      outputs_(buffers.outputs(what.placement).regions(outputs_of(what, job))),
      expected_(expected_patterns(what, job, values)) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    own_.push_back(Pattern::input(what.dtype, what.op, job.first_replica(job.rank) + static_cast<int>(i), values));
  }
}

void Call::write(std::int64_t call) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    own_[i].write(inputs_[i].host(), call);
    inputs_[i].to_device();
  }
}

std::int64_t Call::count_wrong(std::int64_t call) const {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].to_host();
    wrong += count_wrong_in(outputs_[i].host(), job_.first_replica(job_.rank) + static_cast<int>(i), call);
  }
  return wrong;
}

std::int64_t Call::count_wrong_in(std::span<const std::byte> output, int replica, std::int64_t call) const {
  switch (traits(what_.collective).expected) {
    case Expected::nothing: return 0;
    case Expected::reduction:
    case Expected::root_input: return expected_.front().count_wrong(output, call);
    case Expected::own_part_of_reduction:
      return expected_.front().count_wrong(output, call, what_.count / job_.replicas() * replica);
    case Expected::own_part_of_root_input:
      return expected_.front().count_wrong(output, call, elements_before(replica, 0));
    case Expected::partner_input:
      return expected_[static_cast<std::size_t>(replica - job_.first_replica(job_.rank))].count_wrong(output, call);
    case Expected::all_inputs:
    case Expected::own_parts_of_inputs: break;
  }
  const bool has_all = traits(what_.collective).expected == Expected::all_inputs;
  std::int64_t wrong = 0;
  for (int source = 0; source < job_.replicas(); ++source) {
    const std::int64_t count = what_.pair_count(source, has_all ? 0 : replica, job_.replicas());
    const std::size_t bytes = static_cast<std::size_t>(count) * lockstep::size_of(what_.dtype);
    wrong += expected_[static_cast<std::size_t>(source)].count_wrong(output.first(bytes), call,
                                                                     has_all ? 0 : elements_before(replica, source));
    output = output.subspan(bytes);
  }
  return wrong;
}

std::int64_t Call::elements_before(int replica, int source) const {
  std::int64_t count = 0;
  for (int target = 0; target < replica; ++target) count += what_.pair_count(source, target, job_.replicas());
  return count;
}

void Call::touch_outputs() const {
  for (const Region& output : outputs_) {
    output.to_host();
    touch(output.host());
  }
}

}  // namespace perf
