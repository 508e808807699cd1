// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/limit.hpp"

#include "bench/perf/buffers.hpp"
#include "bench/perf/limit_kernel.hpp"
#include "bench/perf/pattern.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace perf {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

/// A sum in place overwrites what it reads; a copy keeps its source.
int slices_of_source(const Traffic& traffic, Placement placement) {
  if (placement == Placement::out_of_place) return traffic.reads;
  return traffic.reads == 1 ? 1 + traffic.writes : std::max(traffic.reads, traffic.writes);
}

int slices_of_target(const Traffic& traffic, Placement placement) {
  return placement == Placement::out_of_place ? traffic.writes : 0;
}

/// Memory of one kernel. In place, its slices are written where they were read.
class Kernel : public Implementation {
 public:
  Kernel(const Traffic& traffic, Placement placement, const std::shared_ptr<lockstep::MemoryResource>& resource)
      : traffic_(traffic),
        stride_bytes_(whole_lines(traffic.slice_bytes)),
        source_(resource, stride_bytes_ * slices_of_source(traffic, placement)),
        target_(resource, stride_bytes_ * slices_of_target(traffic, placement)),
        is_in_place_(placement == Placement::in_place),
        pattern_(Pattern::input(lockstep::DType::f32, lockstep::ReduceOp::sum, 0, Values::order_free)) {}

  void write(std::int64_t call) final { pattern_.write(source_.bytes(), call); }
  [[nodiscard]] std::int64_t count_wrong(std::int64_t /*call*/) const final {
    touch_outputs();
    return 0;
  }
  void touch_outputs() const final { touch(is_in_place_ ? source_.bytes() : target_.bytes()); }
  [[nodiscard]] std::optional<double> posted_seconds() const final { return std::nullopt; }

 protected:
  [[nodiscard]] const Traffic& traffic() const noexcept { return traffic_; }
  [[nodiscard]] std::int64_t stride_bytes() const noexcept { return stride_bytes_; }
  [[nodiscard]] std::byte* source() const noexcept { return source_.data(); }
  [[nodiscard]] std::byte* target() const noexcept { return is_in_place_ ? source_.data() : target_.data(); }
  [[nodiscard]] bool is_in_place() const noexcept { return is_in_place_; }

 private:
  Traffic traffic_;
  std::int64_t stride_bytes_;
  Block source_;
  Block target_;
  bool is_in_place_;
  Pattern pattern_;
};

class SumKernel final : public Kernel {
 public:
  using Kernel::Kernel;
  void run() override {
    sum_slices(reinterpret_cast<const float*>(source()), traffic().reads, reinterpret_cast<float*>(target()),
               traffic().writes, traffic().slice_bytes / float_bytes, stride_bytes() / float_bytes);
  }
};

class CopyKernel final : public Kernel {
 public:
  using Kernel::Kernel;
  void run() override {
    const auto slice = static_cast<std::size_t>(traffic().slice_bytes);
    if (traffic().reads == 1) {
      for (int k = 0; k < traffic().writes; ++k) std::memcpy(target_slice(k), source(), slice);
    } else if (is_in_place()) {
      // reads and writes as many bytes as the slices have
      const auto half = static_cast<std::size_t>(stride_bytes() * traffic().reads / 2);
      std::memcpy(source() + half, source(), half);
      std::memcpy(source(), source() + half, half);
    } else {
      for (int k = 0; k < traffic().writes; ++k) std::memcpy(target_slice(k), source() + stride_bytes() * k, slice);
    }
  }

 private:
  /// In place, the first slice is the source.
  [[nodiscard]] std::byte* target_slice(int k) const { return target() + stride_bytes() * (is_in_place() ? k + 1 : k); }
};

}  // namespace

Traffic least_traffic(const Case& what, const Job& job) {
  const auto slice_of = [](std::int64_t bytes) { return (bytes + float_bytes - 1) / float_bytes * float_bytes; };
  const std::int64_t slice = slice_of((what.bytes() + job.ranks - 1) / job.ranks);
  const int local = job.replicas_per_rank;
  const bool is_in_place = what.placement == Placement::in_place;
  switch (what.collective) {
    case Collective::all_reduce: return {job.replicas(), job.replicas(), slice};
    case Collective::reduce: return {job.replicas(), local, slice};
    case Collective::reduce_scatter: return {job.replicas(), 1, slice};
    case Collective::all_gather:
    case Collective::all_gather_v: return {1, local, slice_of(what.bytes())};
    case Collective::gather:
    case Collective::gather_v: return {1, job.is_root() ? local : 0, slice_of(what.bytes())};
    case Collective::scatter:
    case Collective::scatter_v: return {1, 1, slice};
    case Collective::all_to_all:
    case Collective::all_to_all_v:
    case Collective::send_recv:
    case Collective::halo: return {local, local, slice_of(what.bytes())};
    case Collective::broadcast: return {1, job.is_root() && is_in_place ? local - 1 : local, slice_of(what.bytes())};
    case Collective::barrier:
    case Collective::duplicate:
    case Collective::split:
    case Collective::first_call: return {};
  }
  return {};
}

std::int64_t limit_bytes(const Traffic& traffic, Placement placement) {
  return whole_lines(traffic.slice_bytes) *
         (slices_of_source(traffic, placement) + slices_of_target(traffic, placement));
}

std::vector<std::unique_ptr<Implementation>> limit_implementations(
    const Case& what, const Job& job, const std::shared_ptr<lockstep::MemoryResource>& resource) {
  std::vector<std::unique_ptr<Implementation>> kernels;
  const bool has_one_replica = job.replicas() == 1;
  if (!has_sizes(what.collective)) return kernels;
  if (has_one_replica && what.placement == Placement::in_place) return kernels;
  const Traffic traffic = least_traffic(what, job);
  const bool sums = what.reduces() && !has_one_replica;
  if (sums) kernels.push_back(std::make_unique<SumKernel>(traffic, what.placement, resource));
  if (!sums || what.collective == Collective::all_reduce) {
    kernels.push_back(std::make_unique<CopyKernel>(traffic, what.placement, resource));
  }
  return kernels;
}

}  // namespace perf
