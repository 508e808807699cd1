// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "measurement.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;

/// The most bytes that one buffer of any case needs.
struct Extent {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Without `peer`, of ours.
template <class Describe>
Extent extent(const Options& options, Describe describe) {
  Extent most;
  for (const lockstep::DType dtype : options.dtypes) {
    for (const lockstep::ReduceOp op : options.ops) {
      if (!lockstep::supports(op, dtype)) continue;
      const Case largest = describe(Case{.dtype = dtype, .op = op, .count = count_elements(options.max_bytes, dtype)});
      most.input = std::max(most.input, whole_lines(largest.bytes()));
      most.output = std::max(most.output, whole_lines(largest.result_bytes()));
    }
  }
  return most;
}

Case peers_case(Case what) {
  const PeerCall call = peer_call(what.dtype, what.op);
  what.dtype = call.dtype;
  what.op = call.op;
  return what;
}

Extent our_extent(const Options& options) {
  return extent(options, [](const Case& what) { return what; });
}
Extent peer_extent(const Options& options) { return extent(options, peers_case); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

std::vector<Case> cases(const Options& options) {
  std::vector<Case> all;
  for (const lockstep::DType dtype : options.dtypes) {
    for (const lockstep::ReduceOp op : options.ops) {
      if (!lockstep::supports(op, dtype)) continue;
      for (const std::int64_t bytes : options.sizes_bytes()) {
        all.push_back({.dtype = dtype, .op = op, .count = count_elements(bytes, dtype)});
      }
    }
  }
  return all;
}

std::int64_t memory_bytes(const Options& options) {
  const Extent ours = our_extent(options);
  const Extent peers = peer_extent(options);
  // the libraries need temporary memory: at least that of a result
  const std::int64_t one_side = ours.input + 2 * ours.output;
  return options.compare == Peer::none ? one_side : one_side + peers.input + 2 * peers.output;
}

/// One of the two that are compared, within one case.
struct Measurement::Side {
  Side(const Case& what, const Buffers& buffers, const OwnComm& comm, Values values)
      : pattern(what.dtype, what.op, comm.rank(), comm.size(), values),
        input(buffers.input(), static_cast<std::size_t>(what.bytes())),
        output(buffers.output(what.placement), static_cast<std::size_t>(what.result_bytes())) {}

  Pattern pattern;
  std::span<std::byte> input;
  std::span<std::byte> output;
  std::vector<double> seconds;
  std::int64_t wrong = 0;
};

Measurement::Measurement(const Options& options)
    : options_(options),
      control_(MPI_COMM_WORLD),
      peer_comm_(MPI_COMM_WORLD),
      communicator_(lockstep::communicator_from(MPI_COMM_WORLD)),
      ours_(our_extent(options).input, our_extent(options).output) {
  if (options.compare == Peer::mpi) peers_.emplace(peer_extent(options).input, peer_extent(options).output);
}

template <class Call>
void Measurement::round(Side& side, std::int64_t call, bool is_timed, Call make_call) {
  side.pattern.write(side.input, call);
  MPI_Barrier(control_.get());
  const Clock::time_point start = Clock::now();
  make_call();
  const Clock::time_point end = Clock::now();
  if (is_timed) side.seconds.push_back(std::chrono::duration<double>(end - start).count());
  if (options_.check) {
    side.wrong += side.pattern.count_wrong(side.output, call);
  } else {
    touch(side.output);
  }
}

Result Measurement::run(const Case& what) {
  // in any order only exact values have one right result
  const Values values = options_.order == lockstep::Order::canonical ? Values::mixed : Values::order_free;
  Side ours(what, ours_, control_, values);
  const lockstep::Shape shape{what.count};
  const std::array<lockstep::ConstTensorView, 1> inputs{{{ours.input.data(), what.dtype, shape}}};
  const std::array<lockstep::TensorView, 1> outputs{
      {{ours.output.data(), lockstep::result_dtype(what.op, what.dtype), shape, {}}}};
  const std::array<lockstep::Item, 1> items{{{inputs, outputs}}};
  const lockstep::ReduceOptions reduce_options{.order = options_.order, .name = {}};

  const PeerCall peer = peer_call(what.dtype, what.op);
  std::optional<Side> theirs;
  if (peers_) theirs.emplace(peers_case(what), *peers_, control_, Values::order_free);

  for (std::int64_t i = -options_.warmup_iterations; i < options_.iterations; ++i, ++calls_) {
    round(ours, calls_, i >= 0, [&] { communicator_.all_reduce(items, what.op, reduce_options); });
    if (!theirs) continue;
    const void* const source = what.placement == Placement::in_place ? MPI_IN_PLACE : theirs->input.data();
    round(*theirs, calls_, i >= 0, [&] {
      MPI_Allreduce(source, theirs->output.data(), static_cast<int>(what.count), peer.mpi_dtype, peer.mpi_op,
                    peer_comm_.get());
    });
  }

  Result result;
  result.time_us = median_of_slowest_us(ours.seconds);
  result.wrong = total(ours.wrong);
  if (theirs) {
    result.mpi_time_us = median_of_slowest_us(theirs->seconds);
    result.mpi_wrong = total(theirs->wrong);
  }
  return result;
}

double Measurement::median_of_slowest_us(const std::vector<double>& seconds) const {
  std::vector<double> slowest(seconds.size());
  MPI_Reduce(seconds.data(), slowest.data(), static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX, 0, control_.get());
  return median(std::move(slowest)) * 1e6;
}

std::optional<std::int64_t> Measurement::total(std::int64_t wrong) const {
  std::int64_t sum = 0;
  MPI_Allreduce(&wrong, &sum, 1, MPI_INT64_T, MPI_SUM, control_.get());
  return options_.check ? std::optional(sum) : std::nullopt;
}

}  // namespace perf
