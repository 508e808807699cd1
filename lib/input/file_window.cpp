// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/file_window.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::input {
namespace {

constexpr std::size_t chunk_bytes = 256 * 1024;

}  // namespace

FileWindow::FileWindow(const std::filesystem::path& path, Packing packing) : name_(path.string()) {
  mapped_.emplace(path, MappedFile::Use::in_order);
  const bool found = is_gzip(mapped_->bytes());
  if (packing == Packing::gzip && !found) {
    detail::throw_error(Code::data_loss, "{} is not gzip data: the first two bytes are not 1f 8b", name_);
  }
  if (!found || packing == Packing::none) {
    view_ = mapped_->bytes();
    return;
  }
  mapped_.reset();
  packed_.emplace(path);
}

bool FileWindow::unpack(std::size_t bytes) {
  if (!packed_) return false;
  std::size_t held = view_.size();
  if (held != 0) std::memmove(buffer_.data(), view_.data(), held);
  bool is_at_end = false;
  while (held < bytes && !is_at_end) {
    // at most doubled, because the file may end long before `bytes`
    const std::size_t capacity = held + std::max(chunk_bytes, std::min(held, bytes - held));
    if (buffer_.size() < capacity) buffer_.resize(capacity);
    const std::span<std::byte> free = std::span(buffer_).subspan(held);
    const std::size_t count = packed_->read(free);
    is_at_end = count < free.size();
    held += count;
  }
  view_ = std::span(buffer_).first(held);
  return held >= bytes;
}

}  // namespace lockstep::input
