// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of this process: the devices that were found at the first use, and the tables, which are the interfaces to
// CUDA, to the kernels and to NCCL.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/core/device.hpp>

#include "bindings/cuda/cuda.hpp"
#include "bindings/nccl/nccl.hpp"
#include "device/cuda/kernels.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail::cuda {

/// The interfaces that one Backend uses.
struct Tables {
  std::shared_ptr<Api> api;                   ///< null without CUDA
  std::shared_ptr<Kernels> kernels;           ///< null if `api` is null
  std::shared_ptr<const nccl::Library> nccl;  ///< if null, NCCL is opened at the first use; see nccl::take_library_name
};

/// The devices that were found at the first use. They do not change afterwards.
struct Found {
  std::vector<DeviceProperties> devices;  ///< by index; empty if no GPU can be used
  std::string why;  ///< "built without CUDA", "no CUDA driver", "no GPU is visible", ...; empty if a GPU can be used
  std::string left_out;  ///< which GPU is left out, with those after it, and why; empty if all can be used
  int driver_version = 0;
  int runtime_version = 0;
};

class EventPool;
class OpenDevices;

/// The text of a CUDA version: "13.0" for 13000.
[[nodiscard]] std::string version_text(int version);

/// The tables and the devices of this process. The devices are probed at the first use. Never destroyed. Thread-safe.
class Backend {
 public:
  explicit Backend(Tables tables);
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  ~Backend();

  /// The backend of this process: the real backend, or a backend that a test has installed.
  [[nodiscard]] static Backend& of_this_process();

  [[nodiscard]] Api& api() const noexcept { return *tables_.api; }
  [[nodiscard]] Kernels& kernels() const noexcept { return *tables_.kernels; }
  [[nodiscard]] bool has_kernels() const noexcept { return tables_.kernels != nullptr; }  ///< tests may have none
  [[nodiscard]] const nccl::Library& nccl();
  [[nodiscard]] const Found& found() const noexcept { return found_; }
  [[nodiscard]] int device_count() const noexcept { return static_cast<int>(found_.devices.size()); }
  /// If `device` is not a GPU, throws Error(invalid_argument). If `device` is not available, throws Error(unavailable)
  /// that lists the available GPUs. `who` names the operation in the error.
  void require(Device device, std::string_view who) const;
  /// The resources that the process holds on the devices.
  [[nodiscard]] OpenDevices& open_devices() const noexcept { return *open_devices_; }
  [[nodiscard]] EventPool& events() const noexcept { return *events_; }

  /// False in a child process of fork(), which must not free CUDA resources of its parent.
  [[nodiscard]] bool is_of_this_process() const noexcept;

 private:
  Tables tables_;
  Found found_;
  std::once_flag nccl_once_;
  nccl::Library nccl_;
  std::uint32_t fork_depth_;
  std::unique_ptr<EventPool> events_;          // needs the tables
  std::unique_ptr<OpenDevices> open_devices_;  // destroyed first: it needs the tables and events
};

/// The versions of CUDA and NCCL, also on a machine without a GPU, such as "CUDA 13.0, driver 13.0; NCCL 2.28.9 of
/// /usr/lib/libnccl.so.2" or "CUDA 13.0; no NCCL: cannot open NCCL: ...". Empty in a build without CUDA. Opens NCCL if
/// this process has not tried to open it before.
[[nodiscard]] std::string versions_text(Backend& backend);

/// For tests: as long as this object exists, the process uses `tables`. Objects that were made with other tables must
/// be destroyed before the construction of this object.
class InstalledTables {
 public:
  explicit InstalledTables(Tables tables);
  InstalledTables(const InstalledTables&) = delete;
  InstalledTables& operator=(const InstalledTables&) = delete;
  ~InstalledTables();
};

}  // namespace lockstep::detail::cuda
