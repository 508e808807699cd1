// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "list_call.hpp"

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
  }
  return {};
}

ListTensors::ListTensors(const ListCase& what, const Job& job,
                         const std::shared_ptr<lockstep::MemoryResource>& resource)
    : what_(what) {
  const std::vector<std::int64_t> sizes = what.bytes_of_tensors();
  for (int replica = 0; replica < job.replicas_per_rank; ++replica) {
    blocks_.emplace_back(resource, bytes(what, job) / job.replicas_per_rank);
    std::byte* end = blocks_.back().data();
    replicas_.emplace_back();
    for (const std::int64_t size : sizes) {
      replicas_.back().emplace_back(end, static_cast<std::size_t>(size));
      end += whole_lines(size);
    }
  }
}

std::int64_t ListTensors::bytes(const ListCase& what, const Job& job) {
  std::int64_t sum = 0;
  for (const std::int64_t size : what.bytes_of_tensors()) sum += whole_lines(size);
  return sum * job.replicas_per_rank;
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
    const std::span<const std::span<std::byte>> all = tensors_.of_replica(replica);
    for (std::size_t i = 0; i < all.size(); first += tensors_.what().counts[i], ++i) {
      inputs_[replica].write(all[i], call, first);
    }
  }
}

std::int64_t ListCall::count_wrong(std::int64_t call) const {
  std::int64_t wrong = 0;
  for (std::size_t replica = 0; replica < inputs_.size(); ++replica) {
    std::int64_t first = 0;
    const std::span<const std::span<std::byte>> all = tensors_.of_replica(replica);
    for (std::size_t i = 0; i < all.size(); first += tensors_.what().counts[i], ++i) {
      wrong += result_.count_wrong(all[i], call, first);
    }
  }
  return wrong;
}

void ListCall::touch_outputs() const {
  for (std::size_t replica = 0; replica < inputs_.size(); ++replica) {
    for (const std::span<std::byte> tensor : tensors_.of_replica(replica)) touch(tensor);
  }
}

}  // namespace perf
