// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail {

/// CRC-32C (Castagnoli's polynomial, as in iSCSI, RFC 3720) of `bytes`. With the processor's instruction where it has
/// one, else by a table. "123456789" gives 0xe3069283.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;
/// The same, always by the table.
[[nodiscard]] std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) noexcept;

}  // namespace lockstep::detail
