// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of this process: the tables that reach them, and what was found when they were first asked for.

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

/// Tables that belong together.
struct Tables {
  std::shared_ptr<Api> api;                   ///< null: without CUDA
  std::shared_ptr<Kernels> kernels;           ///< null where `api` is
  std::shared_ptr<const nccl::Library> nccl;  ///< null: opened when it is first asked for, by nccl::take_library_name
};

/// What the first look found; it does not change afterwards.
struct Found {
  std::vector<DeviceProperties> devices;  ///< by index; empty where no GPU can be used
  std::string why;  ///< "built without CUDA", "no CUDA driver", "no GPU is visible", ...; empty where there is one
  int driver_version = 0;
  int runtime_version = 0;
};

class OpenDevices;

/// "13.0" of 13000.
[[nodiscard]] std::string version_text(int version);

/// The tables and what they found, once per process: probed at the first call. Never destroyed. Thread-safe.
class Backend {
 public:
  explicit Backend(Tables tables);
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  ~Backend();

  /// The process's: the real one, or what a test has put in its place.
  [[nodiscard]] static Backend& of_this_process();

  [[nodiscard]] Api& api() const noexcept { return *tables_.api; }
  [[nodiscard]] Kernels& kernels() const noexcept { return *tables_.kernels; }
  [[nodiscard]] const nccl::Library& nccl();
  [[nodiscard]] const Found& found() const noexcept { return found_; }
  [[nodiscard]] int device_count() const noexcept { return static_cast<int>(found_.devices.size()); }
  /// Throws Error(unavailable) that names what is here, where `device` is not among the GPUs of this process, and
  /// Error(invalid_argument) where it is no GPU at all.
  void require(Device device, std::string_view who) const;
  /// What the process holds on them.
  [[nodiscard]] OpenDevices& open_devices() const noexcept { return *open_devices_; }

  /// False in a child that fork() made: CUDA's part of its memory is not the child's to give back.
  [[nodiscard]] bool is_of_this_process() const noexcept;

 private:
  Tables tables_;
  Found found_;
  std::once_flag nccl_once_;
  nccl::Library nccl_;
  std::uint32_t fork_depth_;
  std::unique_ptr<OpenDevices> open_devices_;  // goes first: it needs the tables
};

/// What is linked and what can be opened, on a machine without a GPU, too: "CUDA 13.0, driver 13.0; NCCL 2.28.9 of
/// /usr/lib/libnccl.so.2", "CUDA 13.0; no NCCL: NCCL does not open: ..."; empty in a build without CUDA. Looks for
/// NCCL.
[[nodiscard]] std::string versions_text(Backend& backend);

/// For tests: while it lives, `tables` are the process's. Everything that was made of the ones before must be gone.
class InstalledTables {
 public:
  explicit InstalledTables(Tables tables);
  InstalledTables(const InstalledTables&) = delete;
  InstalledTables& operator=(const InstalledTables&) = delete;
  ~InstalledTables();
};

}  // namespace lockstep::detail::cuda
