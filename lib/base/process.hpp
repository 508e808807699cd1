// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Detects the end of another process of this host, without the help of its parent: by a file descriptor of the process
// (pidfd) or, if the system has no pidfd, by /proc.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::detail {

/// Identifies a process of a host, even after its pid has been reused. Sent between ranks as bytes.
struct ProcessId {
  std::uint64_t space = 0;       ///< identifies the host and its pid namespace; 0 if unknown
  std::uint64_t start_time = 0;  ///< in clock ticks since the start of the host; 0 if unknown
  std::int64_t number = 0;

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

/// Reads files of /proc when a thread calls it for the first time.
[[nodiscard]] ProcessId id_of_this_process() noexcept;

/// Whether a debugger, or another tracer such as strace, is attached to process `number` of this pid namespace. False
/// if the system does not tell. Reads /proc/NUMBER/status.
[[nodiscard]] bool is_traced(std::int64_t number) noexcept;

/// Tells of the end of a process. Thread-safe.
class ProcessEnd {
 public:
  ProcessEnd() = default;
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;
  virtual ~ProcessEnd() = default;

  /// Whether the process has ended. A zombie has ended.
  [[nodiscard]] virtual bool has_ended() const noexcept = 0;
  /// Describes the end of a process that has ended: "has exited", "has exited with code 3", "has died of signal 9
  /// (Killed)", or "has died" if it is not known how the process ended.
  [[nodiscard]] virtual std::string end_text() const = 0;
};

/// Watches one process of this host in order to detect its end. Thread-safe.
class ProcessWatch final : public ProcessEnd {
 public:
  /// The watch of process `id`. All callers in this process share one watch per watched process. Null if the process
  /// cannot be watched, because its id is unknown or it is in another pid namespace, such as the namespace of another
  /// container. The watch keeps a file descriptor open, unless this process is near its limit of file descriptors.
  [[nodiscard]] static std::shared_ptr<const ProcessWatch> of(const ProcessId& id);
  explicit ProcessWatch(const ProcessId& id) noexcept;
  ~ProcessWatch() override;

  /// Costs one system call with a pidfd, and a few with /proc.
  [[nodiscard]] bool has_ended() const noexcept override;
  [[nodiscard]] std::string end_text() const override;

 private:
  /// The status of the ended process in the format of waitpid; none if the kernel does not tell.
  [[nodiscard]] std::optional<int> wait_status() const noexcept;

  ProcessId id_;
  int descriptor_ = -1;  // -1: there is none
  bool had_ended_;
};

}  // namespace lockstep::detail
