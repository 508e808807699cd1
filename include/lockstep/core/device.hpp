// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Names of places where a replica computes.

#pragma once

#include <lockstep/base/export.hpp>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

enum class DeviceKind : std::uint8_t { cpu, gpu };

/// A device by kind and index. Several `cpu:i` may name one host: they are logical devices. Several replicas on one GPU
/// are `gpu:0`, `gpu:0#1`, `gpu:0#2`, ...
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  int logical = 0;  ///< of a GPU: which of the logical devices on it
  friend auto operator<=>(const Device&, const Device&) noexcept = default;
};

/// "cpu:0", "gpu:1", "gpu:1#2". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(Device device);

/// Reads "cpu:0", "CPU:0", "/cpu:0", "/device:GPU:1", "/job:localhost/replica:0/task:0/device:GPU:0", "gpu:0#1"; a
/// missing index is 0. Local. Throws Error(invalid_argument) that names the text and the accepted forms.
[[nodiscard]] LOCKSTEP_API Device parse_device(std::string_view text);

}  // namespace lockstep
