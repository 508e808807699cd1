// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Options of a strategy's collectives, under tf.distribute's names.

#pragma once

#include <lockstep/base/export.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>

namespace lockstep {

/// The implementation that moves data between replicas.
enum class CommunicationImplementation : std::uint8_t {
  automatic,  ///< chosen by the devices
  ring,       ///< host memory and network, also for tensors on GPUs; the schedule depends on the size
  nccl,       ///< NCCL, between GPUs
};

/// "AUTO", "RING" or "NCCL". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(CommunicationImplementation implementation) noexcept;
/// The implementation of that name, in any case of letters. Local. Throws Error(invalid_argument) that lists the names.
[[nodiscard]] LOCKSTEP_API CommunicationImplementation parse_communication_implementation(std::string_view name);

/// A number of bytes that is at least 0; the constructor throws Error(invalid_argument) otherwise.
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

/// A positive number of seconds, or none; the constructor throws Error(invalid_argument) otherwise.
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

/// An implementation, given as enumerator or by name.
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

/// Made as `CommunicationOptions{.bytes_per_pack = 50 << 20, .timeout_seconds = 60, .implementation = "RING"}`; an
/// invalid member throws Error(invalid_argument) at once. Must be equal on all ranks, except for `where`. No member
/// changes a result.
struct CommunicationOptions {
  /// A batch is reduced in packs of at least this many bytes, last values first, each with a collective of its own. At
  /// least 0. Default: 0, one collective for all. Small packs start earlier, large ones cost fewer messages.
  PackBytes bytes_per_pack = 0;
  /// Deadline of each collective: a positive number of seconds, std::nullopt for the strategy's. Default: none.
  TimeoutSeconds timeout_seconds = {};
  /// An enumerator, or its name: AUTO, RING, NCCL. NCCL throws Error(unavailable) for values that are not on GPUs,
  /// and if NCCL cannot connect the GPUs of the ranks.
  ImplementationChoice implementation = CommunicationImplementation::automatic;
  /// Line shown in errors as the place of this rank's call; it may differ between ranks. Default: the line that writes
  /// the options or, if a call has none, the call.
  std::source_location where = std::source_location::current();

  /// These options, except that members of `other` that are not the defaults, and the line of `other`, take precedence.
  /// Local.
  [[nodiscard]] LOCKSTEP_API CommunicationOptions merged(const CommunicationOptions& other) const;
  /// Whether all members have their defaults. Local.
  [[nodiscard]] bool is_default() const noexcept {
    return bytes_per_pack == 0 && !timeout_seconds.has_value() &&
           implementation == CommunicationImplementation::automatic;
  }
  /// `timeout_seconds` as a deadline, at least a millisecond. Local.
  [[nodiscard]] LOCKSTEP_API std::optional<std::chrono::milliseconds> deadline() const;
};

}  // namespace lockstep
