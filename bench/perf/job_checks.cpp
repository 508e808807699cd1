// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/job_checks.hpp"

#include "base/output_file.hpp"
#include "bench/harness/option_values.hpp"
#include "bench/perf/cuda_stream.hpp"
#include "bench/perf/gpus.hpp"
#include "bench/perf/machine.hpp"
#include "bench/perf/memory.hpp"
#include "bench/perf/nccl_group.hpp"
#include "bench/perf/plot.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

namespace perf {
namespace {

/// The option that determines the size of the run, and its value.
std::string size_option(const Options& options) {
  return options.list.empty() ? fmt::format("-e/--maxbytes {}", options.max_bytes) : "--list " + options.list;
}

std::vector<lockstep::Device> gpus_of(const Options& options, const lockstep::Communicator& job) {
  try {
    return lockstep::gpus_of_replicas(job, options.replicas_per_rank);
  } catch (const lockstep::Error& error) {
    if (error.code() != lockstep::Code::unavailable) throw;
    const std::string text = error.text().substr(error.text().find(": ") + 2);  // without the name of the function
    refuse("--memory \"{}\": {}; give arena, malloc or huge", options.memory, text);
  }
}

/// Allocates the memory that the library and the buffers need on each GPU, and frees it.
void check_gpu_memory(const Options& options, std::int64_t bytes_of_replica, const Job& job) {
  std::vector<lockstep::Tensor> taken;
  for (const lockstep::Device device : job.devices) {
    if (device.kind != lockstep::DeviceKind::gpu) continue;
    try {
      taken.push_back(lockstep::Tensor::uninitialized(lockstep::DType::u8, lockstep::Shape{bytes_of_replica},
                                                      lockstep::gpu_memory_resource(device), device));
    } catch (const std::bad_alloc&) {
      refuse("{}: out of memory on {}: its replica needs {} MiB; give less", size_option(options),
             lockstep::to_string(device), bytes_of_replica >> 20);
    }
  }
}

}  // namespace

std::vector<lockstep::Device> devices_of_replicas(const Options& options, const lockstep::Communicator& job) {
  if (!memory_kind(options.memory).is_on_gpus) return host_memory(options.memory, options.replicas_per_rank).devices;
  auto devices = gpus_of(options, job);
  if (options.compare == Peer::nccl) require_nccl();
  return devices;
}

void check_files(const Options& options, int rank) {
  if (rank != 0) return;
  const auto check = [](const char* option, const std::string& name) {
    if (name.empty()) return;
    try {  // does not change the file, if there is one
      lockstep::detail::require_regular_file(name);
      lockstep::detail::FileReplacement{name};
    } catch (const lockstep::detail::FileError& error) {
      refuse("{} \"{}\": the file cannot be written: {}; give a name in an existing, writable folder", option, name,
             error.what());
    }
  };
  check("--json", options.json);
  check("--csv", options.csv);
  if (options.plot.empty()) return;
  require_plotter(options.plot);
  if (options.plot != "-") check("--plot", options.plot);
}

void check_job(const Options& options, const Job& job) {
  for (const Collective collective : options.collectives) {
    if (traits(collective).kind != Kind::message || job.ranks > 1 || options.has_all_collectives()) continue;
    refuse("--collective \"{}\": a message goes between two ranks, but this job has one; start at least two",
           traits(collective).name);
  }
  if (job.root < job.ranks) return;
  refuse("-r/--root \"{}\": the ranks are 0 to {}; give one of these", options.root, job.ranks - 1);
}

void check_memory(const Options& options, const RunPlan& plan, const Job& job, int ranks_of_node) {
  const std::int64_t available = available_memory_bytes();
  const std::int64_t needed = memory_bytes(plan, options, job);
  constexpr double mib = 1 << 20;
  if (available != 0 && needed * ranks_of_node > available) {
    refuse("{}: the ranks of a node ({}) need {:.0f} MiB of memory, but {:.0f} MiB are free; give less",
           size_option(options), ranks_of_node, static_cast<double>(needed * ranks_of_node) / mib,
           static_cast<double>(available) / mib);
  }
  check_gpu_memory(options, needed / job.replicas_per_rank, job);
}

void check_own_gpus(const Job& job, const OwnComm& node) {
  using BusId = std::array<char, 32>;
  std::vector<BusId> own(job.devices.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    static_cast<void>(pci_bus_id(job.devices[i].index).copy(own[i].data(), own[i].size() - 1));
  }
  std::vector<BusId> all(own.size() * static_cast<std::size_t>(node.size()));
  const auto bytes = static_cast<int>(own.size() * sizeof(BusId));
  MPI_Allgather(own.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, node.get());
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice == all.end()) return;
  refuse("--compare \"nccl\": NCCL takes one replica for each GPU, but several are on {}; give fewer replicas or ranks",
         twice->data());
}

}  // namespace perf
