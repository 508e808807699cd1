// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/backend.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "bindings/nccl/nccl.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/streams.hpp"

#include <atomic>
#include <utility>

namespace lockstep::detail::cuda {
namespace {

std::atomic<Backend*> installed{nullptr};

constexpr int least_capability = 80;  // the oldest target of the kernels; see cuda_kernel_args in meson.build

/// Why lockstep cannot use the GPU `device`; empty if it can.
std::string why_unusable(const DeviceProperties& device) {
  if (device.major * 10 + device.minor < least_capability) {
    return fmt::format("its compute capability is {}.{}; the kernels need {}.{} or newer", device.major, device.minor,
                       least_capability / 10, least_capability % 10);
  }
  if (!device.has_memory_pools) return "its driver has no memory pools (cudaDevAttrMemoryPoolsSupported)";
  return {};
}

/// Keeps the devices before the first one that cannot be used, since the index of a GPU is CUDA's number. Returns why
/// later ones are left out; empty if all can be used.
std::string leave_out_unusable(Found& found) {
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    const std::string why = why_unusable(found.devices[i]);
    if (why.empty()) continue;
    std::string text = fmt::format("gpu:{} ({}) cannot be used: {}", i, found.devices[i].name, why);
    if (i + 1 < found.devices.size()) text += "; set CUDA_VISIBLE_DEVICES to the GPUs after it to use them";
    found.devices.resize(i);
    return text;
  }
  return {};
}

/// Looks for devices and stores the result in `found`. Returns the reason if no GPU can be used; otherwise "".
std::string look_for_devices(Api& api, Found& found) {
  // if there is no driver, only this call reports it without setting CUDA's last error
  if (api.driver_version(found.driver_version) != Status::success) found.driver_version = 0;
  if (found.driver_version == 0) return "no CUDA driver";
  int count = 0;
  Status status = api.device_count(count);
  if (status == Status::insufficient_driver) {
    return fmt::format("the driver is too old: it supports CUDA {}, but lockstep was built with CUDA {}",
                       version_text(found.driver_version), version_text(found.runtime_version));
  }
  if (status == Status::no_device || (status == Status::success && count == 0)) return "no GPU is visible";
  for (int device = 0; status == Status::success && device < count; ++device) {
    status = api.device_properties(device, found.devices.emplace_back());
  }
  if (status == Status::success) {
    found.left_out = leave_out_unusable(found);
    return found.devices.empty() ? found.left_out : std::string();
  }
  found.devices.clear();
  return fmt::format("cannot initialize CUDA: {} ({})", api.error_string(status), api.error_name(status));
}

Found look(Api& api) {
  Found found;
  static_cast<void>(api.runtime_version(found.runtime_version));
  found.why = look_for_devices(api, found);
  if (!found.why.empty()) static_cast<void>(api.take_last_error());
  return found;
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Backend::Backend(Tables tables)
    : tables_(std::move(tables)),
      fork_depth_(fork_depth()),
      events_(std::make_unique<EventPool>()),
      open_devices_(std::make_unique<OpenDevices>()) {
  if (tables_.api == nullptr) {
    found_.why = "built without CUDA";
  } else {
    found_ = look(*tables_.api);
  }
}

Backend::~Backend() = default;

Backend& Backend::of_this_process() {
  if (Backend* const put = installed.load(std::memory_order_acquire)) return *put;
  // never destroyed, because streams may outlive static objects
  static Backend* const real = new Backend({real_api(), real_kernels(), nullptr});
  return *real;
}

const nccl::Library& Backend::nccl() {
  std::call_once(nccl_once_, [this] {
    if (tables_.nccl != nullptr) {
      nccl_ = *tables_.nccl;
    } else {
      const nccl::LibraryName name = nccl::take_library_name();
      nccl_ = nccl::open_library(name.file);
      if (nccl_.api == nullptr && !name.file.empty()) {
        nccl_.why = fmt::format("{} is \"{}\", but must name a file with NCCL {} or newer: {}", name.by, name.file,
                                nccl::version_text(nccl::least_version), nccl_.why);
      }
    }
  });
  return nccl_;
}

void Backend::require(Device device, std::string_view who) const {
  if (device.kind != DeviceKind::gpu) {
    throw_error(Code::invalid_argument, "{}: {} is not a GPU", who, to_string(device));
  }
  if (device.index >= 0 && device.index < device_count() && device.logical >= 0) return;
  if (device_count() == 0)
    throw_error(Code::unavailable, "{}: {} is not available: {}", who, to_string(device), found_.why);
  std::string here = device_count() == 1 ? "gpu:0" : fmt::format("gpu:0 to gpu:{}", device_count() - 1);
  if (!found_.left_out.empty()) here += "; " + found_.left_out;
  throw_error(Code::unavailable, "{}: {} is not available; this process has {}", who, to_string(device), here);
}

std::string versions_text(Backend& backend) {
  const Found& found = backend.found();
  if (found.runtime_version == 0) return {};
  std::string text = "CUDA " + version_text(found.runtime_version);
  if (found.driver_version != 0) text += ", driver " + version_text(found.driver_version);
  const nccl::Library& nccl = backend.nccl();
  if (nccl.api == nullptr) return text + "; no NCCL: " + nccl.why;
  return text + fmt::format("; NCCL {} of {}", nccl::version_text(nccl.version), nccl.path);
}

bool Backend::is_of_this_process() const noexcept { return fork_depth_ == fork_depth(); }

InstalledTables::InstalledTables(Tables tables) {
  LOCKSTEP_CHECK(installed.load() == nullptr);
  installed.store(new Backend(std::move(tables)), std::memory_order_release);
}

InstalledTables::~InstalledTables() {
  delete installed.load();  // before the tables are removed: the destructor of Backend uses the tables
  installed.store(nullptr);
}

}  // namespace lockstep::detail::cuda
