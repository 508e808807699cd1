// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Options of a strategy's collectives, with the names of tf.distribute.

#pragma once

#include <lockstep/base/chrono.hpp>
#include <lockstep/base/export.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>

namespace lockstep {

/// The implementation that moves data between replicas.
enum class CommunicationImplementation : std::uint8_t {
  automatic,  ///< lockstep chooses by the devices of the values
  ring,       ///< host memory and network, also for tensors on GPUs; the size determines the schedule
  nccl,       ///< NCCL, between GPUs
};

/// "AUTO", "RING" or "NCCL". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(CommunicationImplementation implementation) noexcept;
/// The implementation named `name`; upper and lower case are not distinguished. Local. Throws Error(invalid_argument),
/// which lists the names, if no implementation has this name.
[[nodiscard]] LOCKSTEP_API CommunicationImplementation parse_communication_implementation(std::string_view name);

/// A number of bytes, at least 0. The constructor throws Error(invalid_argument) for a negative number.
class PackBytes {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a checked number
  constexpr PackBytes(std::int64_t bytes) : bytes_(bytes) {
    if (bytes < 0) refuse(bytes);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): converts back to a number
  constexpr operator std::int64_t() const noexcept { return bytes_; }

 private:
  [[noreturn]] LOCKSTEP_API static void refuse(std::int64_t bytes);
  std::int64_t bytes_;
};

/// A positive number of seconds, or no number. The constructor throws Error(invalid_argument) for a number that is not
/// positive.
class TimeoutSeconds {
 public:
  constexpr TimeoutSeconds() = default;
  // NOLINTBEGIN(google-explicit-constructor): as PackBytes
  constexpr TimeoutSeconds(std::nullopt_t) {}
  constexpr TimeoutSeconds(double seconds) : seconds_(seconds) {
    if (!(seconds > 0)) refuse(seconds);
  }
  constexpr operator std::optional<double>() const noexcept { return seconds_; }
  // NOLINTEND(google-explicit-constructor)
  [[nodiscard]] constexpr bool has_value() const noexcept { return seconds_.has_value(); }
  [[nodiscard]] constexpr double operator*() const { return *seconds_; }

 private:
  [[noreturn]] LOCKSTEP_API static void refuse(double seconds);
  std::optional<double> seconds_;
};

/// An implementation, given as an enumerator or as a name.
class ImplementationChoice {
 public:
  // NOLINTBEGIN(google-explicit-constructor): as PackBytes
  constexpr ImplementationChoice(CommunicationImplementation value) noexcept : value_(value) {}
  ImplementationChoice(std::string_view name) : value_(parse_communication_implementation(name)) {}
  ImplementationChoice(const char* name) : ImplementationChoice(std::string_view(name)) {}
  ImplementationChoice(const std::string& name) : ImplementationChoice(std::string_view(name)) {}
  constexpr operator CommunicationImplementation() const noexcept { return value_; }
  // NOLINTEND(google-explicit-constructor)

 private:
  CommunicationImplementation value_;
};

/// Example: `CommunicationOptions{.bytes_per_pack = 50 << 20, .timeout_seconds = 60, .implementation = "RING"}`. An
/// invalid member throws Error(invalid_argument) at once. All members except `where` must be equal on all ranks. If
/// reductions use the canonical order, no member changes a result.
struct CommunicationOptions {
  /// A batch is divided into packs of at least this many bytes. Each pack is reduced by its own collective, the last
  /// values of the batch first. At least 0. Default: 0, which leaves the number of packs to the cross-device operations
  /// (by default one pack). Small packs start earlier; large packs need fewer messages.
  PackBytes bytes_per_pack = 0;
  /// Timeout of each collective: a positive number of seconds. Default: std::nullopt, which means the timeout of the
  /// strategy.
  TimeoutSeconds timeout_seconds = {};
  /// An enumerator, or the name AUTO, RING or NCCL. With NCCL, collectives throw Error(unavailable) if values are not
  /// on GPUs, or if NCCL cannot connect the GPUs of the ranks.
  ImplementationChoice implementation = CommunicationImplementation::automatic;
  /// Source line of this rank's call, for error texts; may differ between ranks. Default: the line that constructs the
  /// options; for a call without options, the line of the call.
  std::source_location where = std::source_location::current();

  /// Returns a copy of these options in which some members are replaced by those of `other`: all members of `other`
  /// that do not have their defaults, and `where`. Local.
  [[nodiscard]] LOCKSTEP_API CommunicationOptions merged(const CommunicationOptions& other) const;
  /// Whether all members except `where` have their defaults. Local.
  [[nodiscard]] bool is_default() const noexcept {
    return bytes_per_pack == 0 && !timeout_seconds.has_value() &&
           implementation == CommunicationImplementation::automatic;
  }
  /// `timeout_seconds` in milliseconds, rounded up; std::nullopt if it is not set. Local.
  [[nodiscard]] LOCKSTEP_API std::optional<std::chrono::milliseconds> deadline() const;
};

}  // namespace lockstep
