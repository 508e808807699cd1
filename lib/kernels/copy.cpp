// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/copy.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cpp"

#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Copies whole cache lines by non-temporal stores, and the remainders at both ends by memcpy.
void stream_bytes(std::uint8_t* target, const std::uint8_t* source, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::size_t vector = hn::MaxLanes(d);
  constexpr std::size_t line = std::max<std::size_t>(64, vector);
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(target) % line);
  if (head > 0) std::memcpy(target, source, head);
  std::size_t i = head;
  for (; i + line <= bytes; i += line) {
    for (std::size_t v = 0; v < line; v += vector) hn::Stream(hn::LoadU(d, source + i + v), d, target + i + v);
  }
  if (i < bytes) std::memcpy(target + i, source + i, bytes - i);
  hwy::FlushStream();
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(stream_bytes);

void copy_bytes(void* target, const void* source, std::size_t bytes, CopyKind kind) {
  if (bytes == 0) return;
  if (kind == CopyKind::streamed) {
    HWY_DYNAMIC_DISPATCH(stream_bytes)
    (static_cast<std::uint8_t*>(target), static_cast<const std::uint8_t*>(source), bytes);
  } else {
    std::memcpy(target, source, bytes);
  }
}

}  // namespace lockstep::detail
#endif
