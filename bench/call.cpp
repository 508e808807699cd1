// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "call.hpp"

namespace perf {
namespace {

/// How many inputs, and outputs, this rank has.
int inputs_of(const Case& what, const Job& job) {
  const Traits& kind = traits(what.collective);
  if (kind.input == Length::none) return 0;
  if (kind.input_holder == Holder::every_rank) return job.replicas_per_rank;
  return job.is_root() ? 1 : 0;
}

int outputs_of(const Case& what, const Job& job) {
  const Traits& kind = traits(what.collective);
  if (kind.output == Length::none) return 0;
  return kind.output_holder == Holder::every_rank || job.is_root() ? job.replicas_per_rank : 0;
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
      for (int replica = 0; replica < job.replicas(); ++replica) {
        patterns.push_back(Pattern::input(what.dtype, what.op, replica, values));
      }
      break;
    case Expected::root_input:
      patterns.push_back(Pattern::input(what.dtype, what.op, job.first_replica(job.root), values));
      break;
  }
  return patterns;
}

}  // namespace

CallExtent extent(const Case& what, const Job& job) {
  const std::int64_t input = whole_lines(what.input_bytes(job.replicas()));
  const std::int64_t output = whole_lines(what.output_bytes(job.replicas()));
  return {input * job.replicas_per_rank, output * job.replicas_per_rank};
}

Call::Call(const Case& what, const Job& job, const Buffers& buffers, Values values)
    : what_(what),
      job_(job),
      inputs_(regions(buffers.input(), what.input_bytes(job.replicas()), inputs_of(what, job))),
      outputs_(regions(buffers.output(what.placement), what.output_bytes(job.replicas()), outputs_of(what, job))),
      expected_(expected_patterns(what, job, values)) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    own_.push_back(Pattern::input(what.dtype, what.op, job.first_replica(job.rank) + static_cast<int>(i), values));
  }
}

void Call::write(std::int64_t call) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) own_[i].write(inputs_[i], call);
}

std::int64_t Call::count_wrong(std::int64_t call) const {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    wrong += count_wrong_in(outputs_[i], job_.first_replica(job_.rank) + static_cast<int>(i), call);
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
    case Expected::all_inputs: break;
  }
  std::int64_t wrong = 0;
  const std::size_t part_bytes = output.size() / expected_.size();
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    wrong += expected_[i].count_wrong(output.subspan(i * part_bytes, part_bytes), call);
  }
  return wrong;
}

void Call::touch_outputs() const {
  for (const std::span<std::byte> output : outputs_) touch(output);
}

}  // namespace perf
