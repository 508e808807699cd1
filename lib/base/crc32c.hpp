// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail {

/// The CRC-32C of `bytes` (Castagnoli's polynomial, as in iSCSI, RFC 3720). Uses the processor's CRC instruction if
/// there is one, otherwise tables. The CRC of "123456789" is 0xe3069283.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;
/// Computes the same CRC, always by tables.
[[nodiscard]] std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) noexcept;

}  // namespace lockstep::detail
