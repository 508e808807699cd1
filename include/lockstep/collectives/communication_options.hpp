// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a strategy's collectives can be told, under tf.distribute's names.

#pragma once

#include <lockstep/base/export.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>

namespace lockstep {

/// What moves the data between replicas.
enum class CommunicationImplementation : std::uint8_t {
  automatic,  ///< what suits the devices
  ring,       ///< the host's memory and network, whatever schedule the size asks for; also of what lies on GPUs
  nccl,       ///< between GPUs
};

/// "AUTO", "RING" or "NCCL". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(CommunicationImplementation implementation) noexcept;
/// The implementation of that name, in any case of letters. Local. Throws Error(invalid_argument) that lists the names.
[[nodiscard]] LOCKSTEP_API CommunicationImplementation parse_communication_implementation(std::string_view name);

/// A number of bytes that is not negative; Error(invalid_argument) else.
class PackBytes {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a number that is checked
  constexpr PackBytes(std::int64_t bytes) : bytes_(bytes) {
    if (bytes < 0) refuse(bytes);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): and is one again
  constexpr operator std::int64_t() const noexcept { return bytes_; }

 private:
  [[noreturn]] LOCKSTEP_API static void refuse(std::int64_t bytes);
  std::int64_t bytes_;
};

/// A positive number of seconds, or none; Error(invalid_argument) else.
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

/// An implementation, also by its name.
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

/// Made as `CommunicationOptions{.bytes_per_pack = 50 << 20, .timeout_seconds = 60, .implementation = "RING"}`; a
/// member that cannot be is refused there and then, with Error(invalid_argument). Equal on all ranks, but for
/// `where`. None of them changes a result.
struct CommunicationOptions {
  /// A batch is reduced in packs of at least this many bytes, last values first, each a collective of its own. At least
  /// 0. Default: 0, one collective for all. Small packs start earlier, large ones cost fewer messages.
  PackBytes bytes_per_pack = 0;
  /// Deadline of each collective: a positive number of seconds, std::nullopt for the strategy's. Default: none.
  TimeoutSeconds timeout_seconds = {};
  /// An enumerator, or its name: AUTO, RING, NCCL. NCCL is Error(unavailable) for values that do not lie on GPUs, and
  /// where the ranks do not reach each other's by it.
  ImplementationChoice implementation = CommunicationImplementation::automatic;
  /// Line shown in errors as the place of this rank's call; it may differ between ranks. Default: the line that writes
  /// the options or, if a call has none, the call.
  std::source_location where = std::source_location::current();

  /// These options, but for those members of `other` that are not the defaults: they win. So does the line of `other`.
  /// Local.
  [[nodiscard]] LOCKSTEP_API CommunicationOptions merged(const CommunicationOptions& other) const;
  /// Whether nothing is asked for. Local.
  [[nodiscard]] bool is_default() const noexcept {
    return bytes_per_pack == 0 && !timeout_seconds.has_value() &&
           implementation == CommunicationImplementation::automatic;
  }
  /// `timeout_seconds` as a deadline, at least a millisecond. Local.
  [[nodiscard]] LOCKSTEP_API std::optional<std::chrono::milliseconds> deadline() const;
};

}  // namespace lockstep
