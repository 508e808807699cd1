// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/kernel_rates.hpp"

#include "bench/harness/gradient_list.hpp"
#include "device/cuda/backend.hpp"
#include "gpu/kernel_work.hpp"

#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::test {

using detail::cuda::Backend;
using detail::cuda::CopyRegion;
using detail::cuda::Stream;

namespace {

/// The sizes and the length of the measurements.
struct Extent {
  Effort effort;
  std::int64_t copy_bytes;
  std::vector<std::int64_t> sizes_bytes;
  std::vector<std::int64_t> few_sizes_bytes;   // of measurements that are made for a few sizes only
  std::vector<std::int64_t> bytes_of_tensors;  // sizes of the tensors of the list
  std::vector<std::int64_t> chunk_counts;      // numbers of chunks of 4 KiB
};

Extent extent_of(bool quick) {
  if (quick) {
    return {
        {.round_seconds = 0, .rounds = 1}, 1 << 20, {4 << 10, 64 << 10}, {64 << 10}, {400, 4096, 20'000, 4}, {1, 16}};
  }
  // one launch copies at most 144 chunks
  Extent extent{{}, std::int64_t{1} << 30, {}, {64 << 10, 32 << 20, 256 << 20}, {}, {1, 16, 144, 1024}};
  for (std::int64_t bytes = 4 << 10; bytes <= std::int64_t{1} << 30; bytes *= 4) extent.sizes_bytes.push_back(bytes);
  extent.sizes_bytes.push_back(32 << 20);
  std::sort(extent.sizes_bytes.begin(), extent.sizes_bytes.end());
  for (const std::int64_t count : perf::resnet50()) {
    extent.bytes_of_tensors.push_back(count * static_cast<std::int64_t>(sizeof(float)));
  }
  return extent;
}

class Rates {
 public:
  explicit Rates(bool quick) : extent_(extent_of(quick)), clock_(extent_.effort) {}

  KernelRates measure() {
    rates_.gpu = gpu_status();
    measure_launches();
    measure_copies();
    for (const std::int64_t bytes : extent_.sizes_bytes) measure_reductions(bytes);
    measure_dtypes();
    for (const std::int64_t bytes : extent_.few_sizes_bytes) {
      measure_five_inputs(bytes);
      measure_partials(bytes);
    }
    for (const Alignment alignment : {Alignment::aligned, Alignment::unaligned}) {
      measure_pack("pack", extent_.bytes_of_tensors, alignment, PackDirection::pack);
      measure_pack("unpack", extent_.bytes_of_tensors, alignment, PackDirection::unpack);
      for (const std::int64_t count : extent_.chunk_counts) {
        const std::vector<std::int64_t> chunks(static_cast<std::size_t>(count), 4 << 10);
        measure_pack("pack 4 KiB", chunks, alignment, PackDirection::pack);
        measure_pack("unpack 4 KiB", chunks, alignment, PackDirection::unpack);
      }
    }
    return std::move(rates_);
  }

 private:
  static constexpr int launches_in_a_graph = 50;

  void measure_launches() {
    Tensor target = zeros_on_gpu(4);
    const float one = 1;
    const Launch fill = [&](Stream stream, int) {
      return Backend::of_this_process().kernels().fill(target.data(), &one, sizeof one, 1, stream);
    };
    rates_.launch_us = clock_.us_of(fill);
    rates_.launch_latency_us = clock_.latency_us_of(fill);
    rates_.graph_launch_us = graph_us_of(fill, launches_in_a_graph, clock_.effort());
  }

  void measure_copies() {
    const auto bytes = static_cast<std::size_t>(extent_.copy_bytes);
    const Tensor source = zeros_on_gpu(extent_.copy_bytes);
    Tensor target = zeros_on_gpu(extent_.copy_bytes);
    Tensor host = Tensor::uninitialized(DType::u8, Shape{extent_.copy_bytes}, pinned_memory_resource());
    const auto rate_of = [&](std::int64_t moved_bytes, void* to, const void* from) {
      return gbs(moved_bytes, clock_.us_of([&](Stream stream, int) {
        return Backend::of_this_process().api().memcpy_async(to, from, bytes, stream);
      }));
    };
    rates_.copy_gbs = rate_of(2 * extent_.copy_bytes, target.data(), source.data());
    rates_.to_host_gbs = rate_of(extent_.copy_bytes, host.data(), source.data());
    rates_.to_device_gbs = rate_of(extent_.copy_bytes, target.data(), host.data());
    const CopyRegion piece{source.data(), target.data(), bytes};
    const Launch copy = [&](Stream stream, int) {
      return Backend::of_this_process().kernels().copy(std::span(&piece, 1), stream);
    };
    rates_.kernel_copy_gbs = gbs(2 * extent_.copy_bytes, clock_.us_of(copy));
  }

  void measure_reductions(std::int64_t bytes) {
    for (const int replicas : {2, 4, 8}) {
      for (const Alignment alignment : {Alignment::aligned, Alignment::unaligned, Alignment::mixed}) {
        measure_reduction({.replicas = replicas, .bytes = bytes, .alignment = alignment});
      }
      measure_reduction({.replicas = replicas, .bytes = bytes, .in_place = true});
    }
  }

  void measure_dtypes() {
    const std::int64_t bytes = std::min<std::int64_t>(extent_.sizes_bytes.back(), 256 << 20);
    for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::i64}) {
      measure_reduction({.dtype = dtype, .replicas = 4, .bytes = bytes});
    }
  }

  /// 16-bit types with five inputs: a number for which there is no kernel of its own.
  void measure_five_inputs(std::int64_t bytes) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const Alignment alignment : {Alignment::aligned, Alignment::unaligned}) {
        measure_reduction({.dtype = dtype, .replicas = 5, .bytes = bytes, .alignment = alignment});
      }
    }
  }

  void measure_partials(std::int64_t bytes) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      for (const int inputs : {2, 4, 5}) {
        for (const FoldStep step : {FoldStep::to_partial, FoldStep::from_partials}) {
          measure_reduction({.dtype = dtype, .replicas = inputs, .bytes = bytes, .step = step});
        }
      }
    }
  }

  static const char* name_of(const ReduceKind& kind) {
    switch (kind.step) {
      case FoldStep::to_partial: return "to partial";
      case FoldStep::from_partials: return "from partials";
      case FoldStep::complete: break;
    }
    return kind.in_place ? "reduce in place" : "reduce";
  }

  void measure_reduction(const ReduceKind& kind) {
    const std::size_t available = Backend::of_this_process().found().devices.front().memory_bytes / 2;
    if (static_cast<std::size_t>(ReduceWork::memory_bytes(kind)) > available) return;
    const ReduceWork work(kind);
    clock_.run(work.launch());
    KernelRow row{.what = name_of(kind),
                  .dtype = std::string(to_string(kind.dtype)),
                  .replicas = kind.replicas,
                  .bytes = kind.bytes,
                  .alignment = std::string(to_string(kind.alignment)),
                  .wrong = work.count_wrong()};
    time(row, work.launch(), ReduceWork::moved_bytes(kind), kind.bytes <= 1 << 20);
  }

  void measure_pack(const char* what, std::span<const std::int64_t> bytes_of_tensors, Alignment alignment,
                    PackDirection direction) {
    const PackWork work(bytes_of_tensors, alignment, direction);
    clock_.run(work.launch());
    KernelRow row{.what = what,
                  .dtype = "f32",
                  .replicas = 1,
                  .bytes = work.bytes(),
                  .alignment = std::string(to_string(alignment)),
                  .wrong = work.count_wrong()};
    time(row, work.launch(), 2 * work.bytes(), true);
  }

  void time(KernelRow& row, const Launch& launch, std::int64_t moved_bytes, bool in_graph) {
    row.us = clock_.us_of(launch);
    row.latency_us = clock_.latency_us_of(launch);
    if (in_graph) row.graph_us = graph_us_of(launch, launches_in_a_graph, clock_.effort());
    row.of_copy = gbs(moved_bytes, row.us) / rates_.copy_gbs;
    print(row);
    rates_.rows.push_back(std::move(row));
  }

  static double gbs(std::int64_t bytes, double us) { return static_cast<double>(bytes) / us * 1e-3; }

  Extent extent_;
  DeviceClock clock_;
  KernelRates rates_;
};

}  // namespace

KernelRates measure_kernels(bool quick) { return Rates(quick).measure(); }

}  // namespace lockstep::test
