// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/list_call.hpp"

#include <numeric>

namespace perf {

std::int64_t ListCase::count() const noexcept { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

std::vector<std::int64_t> ListCase::bytes_of_tensors() const {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t count : counts) bytes.push_back(count * static_cast<std::int64_t>(lockstep::size_of(dtype)));
  return bytes;
}

std::string_view to_string(ListMode mode) noexcept {
  switch (mode) {
    case ListMode::one_plan: return "one_plan";
    case ListMode::one_by_one: return "one_by_one";
    case ListMode::buckets: return "buckets";
    case ListMode::gradient_buckets: return "gradient_buckets";
  }
  return {};
}

std::span<const ListMode> modes_of(const Job& job) noexcept {
  static constexpr std::array all{ListMode::one_plan, ListMode::one_by_one, ListMode::buckets,
                                  ListMode::gradient_buckets};
  return std::span(all).first(job.replicas_per_rank == 1 ? all.size() : all.size() - 1);
}

ListTensors::ListTensors(const ListCase& what, const Memory& memory) : what_(what), memory_(memory) {
  const std::vector<std::int64_t> sizes = what.bytes_of_tensors();
  for (const lockstep::Device device : memory.devices) {
    blocks_.emplace_back(memory.kind, device, bytes(what));
    std::int64_t end = 0;
    replicas_.emplace_back();
    for (const std::int64_t size : sizes) {
      replicas_.back().push_back(blocks_.back().region(end, size));
      end += whole_lines(size);
    }
  }
}

std::int64_t ListTensors::bytes(const ListCase& what) {
  std::int64_t sum = 0;
  for (const std::int64_t size : what.bytes_of_tensors()) sum += whole_lines(size);
  return sum;
}

ListCall::ListCall(const ListTensors& tensors, const Job& job, Values values)
    : tensors_(tensors), result_(Pattern::result(tensors.what().dtype, tensors.what().op, job.replicas(), values)) {
  for (int i = 0; i < job.replicas_per_rank; ++i) {
    inputs_.push_back(Pattern::input(tensors.what().dtype, tensors.what().op, job.first_replica(job.rank) + i, values));
  }
}

void ListCall::write(std::int64_t call) {
  for (std::size_t replica = 0; replica < inputs_.size(); ++replica) {
    std::int64_t first = 0;
    const std::span<const Region> all = tensors_.of_replica(replica);
    for (std::size_t i = 0; i < all.size(); first += tensors_.what().counts[i], ++i) {
      inputs_[replica].write(all[i].host(), call, first);
      all[i].to_device();
    }
  }
}

std::int64_t ListCall::count_wrong(std::int64_t call) const {
  std::int64_t wrong = 0;
  for (std::size_t replica = 0; replica < inputs_.size(); ++replica) {
    std::int64_t first = 0;
    const std::span<const Region> all = tensors_.of_replica(replica);
    for (std::size_t i = 0; i < all.size(); first += tensors_.what().counts[i], ++i) {
      all[i].to_host();
      wrong += result_.count_wrong(all[i].host(), call, first);
    }
  }
  return wrong;
}

void ListCall::touch_outputs() const {
  for (std::size_t replica = 0; replica < inputs_.size(); ++replica) {
    for (const Region& tensor : tensors_.of_replica(replica)) {
      tensor.to_host();
      touch(tensor.host());
    }
  }
}

}  // namespace perf
