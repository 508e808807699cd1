// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of another process of this host, noticed without its parent: by a file descriptor of the process (pidfd) or,
// where there is none, by /proc.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::detail {

/// Names a process of a host, even after its number has been reused. Sent between ranks as bytes.
struct ProcessId {
  std::uint64_t space = 0;       ///< the host and its pid namespace; 0: unknown
  std::uint64_t start_time = 0;  ///< in clock ticks since the host has started; 0: unknown
  std::int64_t number = 0;

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

[[nodiscard]] ProcessId id_of_this_process() noexcept;

/// Whether a debugger, or another tracer such as strace, is attached to process `number` of this pid namespace; false
/// if the system does not say. Reads /proc/NUMBER/status.
[[nodiscard]] bool is_traced(std::int64_t number) noexcept;

/// Thread-safe.
class ProcessWatch {
 public:
  /// The watch of `id`; one per process, shared by all callers. Null if the process cannot be watched: it is unknown,
  /// or is in another pid namespace, such as that of another container. Keeps a file descriptor, unless the limit of
  /// these is near.
  [[nodiscard]] static std::shared_ptr<const ProcessWatch> of(const ProcessId& id);
  explicit ProcessWatch(const ProcessId& id) noexcept;
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  /// Whether the process has ended; a zombie has. One system call.
  [[nodiscard]] bool has_ended() const noexcept;
  /// After its end: "has exited", "has exited with code 3", "has died of signal 9 (Killed)", or "has died" if the
  /// kernel does not say how.
  [[nodiscard]] std::string end_text() const;

 private:
  /// As of waitpid.
  [[nodiscard]] std::optional<int> wait_status() const noexcept;

  ProcessId id_;
  int descriptor_ = -1;  // -1: there is none
  bool had_ended_;
};

}  // namespace lockstep::detail
