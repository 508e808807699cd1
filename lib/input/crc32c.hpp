// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli), the checksum of TFRecord files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::input {

[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

}  // namespace lockstep::input
