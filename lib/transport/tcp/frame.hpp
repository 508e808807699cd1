// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What goes over a connection between two processes: frames, each a header and a payload.

#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail {

enum class FrameKind : std::uint32_t {
  message = 1,  ///< a message of a group (Transport::post)
  eager,        ///< a whole transfer
  request,      ///< announces a transfer of `size` bytes
  grant,        ///< the receiver of transfer `number` waits for its data
  data,         ///< a part of transfer `number`, from byte `size` on; `group` is 0, or that of a transfer by number
  withdrawal,   ///< the sender of transfer `number` has cancelled it
  credit,       ///< the receiver has taken eager transfers of `size` bytes
  farewell,     ///< the last frame: the process ends its connections
};

/// Both processes have the same byte order, as lockstep requires of a job.
struct FrameHeader {
  FrameKind kind{};
  std::uint32_t bytes = 0;   ///< of the payload
  std::uint64_t group = 0;   ///< number of the group
  std::uint64_t tag = 0;     ///< transfers match in order if group and tag are equal
  std::uint64_t number = 0;  ///< of a transfer, by its sender
  std::uint64_t size = 0;

  static constexpr std::uint32_t most_bytes = 1U << 20;  ///< of a payload
};
static_assert(sizeof(FrameHeader) == 40 && std::is_trivially_copyable_v<FrameHeader>);

/// Whether a header that has arrived can be one.
[[nodiscard]] constexpr bool is_valid(const FrameHeader& header) noexcept {
  const bool has_payload =
      header.kind == FrameKind::message || header.kind == FrameKind::eager || header.kind == FrameKind::data;
  return header.kind >= FrameKind::message && header.kind <= FrameKind::farewell &&
         header.bytes <= FrameHeader::most_bytes && (has_payload || header.bytes == 0);
}

}  // namespace lockstep::detail
