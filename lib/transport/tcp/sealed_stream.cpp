// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/sealed_stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::detail {
namespace {

std::span<const std::byte, AesGcm::key_bytes> bytes_of(const SipHashCode& key) {
  return std::as_bytes(std::span(key)).first<AesGcm::key_bytes>();
}

}  // namespace

SealedStream::SealedStream(const SealKeys& keys)
    : sealer_(AesGcm::Use::seal, bytes_of(keys.sends)), opener_(AesGcm::Use::open, bytes_of(keys.receives)) {}

int SealedStream::seal(std::size_t bytes) {
  Record& record = *outgoing_;
  record.bytes = static_cast<std::uint32_t>(bytes);
  std::array<std::byte, AesGcm::tag_bytes> tag;
  const auto head = std::as_bytes(std::span(&record.bytes, 1));
  if (!sealer_.seal(next_sent_++, head, std::span(record.data).first(bytes), tag)) return fail(EIO);
  std::copy(tag.begin(), tag.end(), record.data.begin() + static_cast<std::ptrdiff_t>(bytes));
  sent_ = 0;
  outgoing_end_ = head_bytes + bytes + tag.size();
  return 0;
}

int SealedStream::flush(int socket) {
  if (error_ != 0) return error_;
  const auto* const begin = reinterpret_cast<const std::byte*>(outgoing_.get());
  while (!has_left()) {
    const ssize_t result = ::send(socket, begin + sent_, outgoing_end_ - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (result >= 0) {
      sent_ += static_cast<std::size_t>(result);
    } else if (errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : errno;
    }
  }
  return 0;
}

int SealedStream::receive(int socket, std::span<const std::byte>& plain) {
  plain = {};
  if (error_ != 0) return error_;
  Record& record = *incoming_;
  auto* const begin = reinterpret_cast<std::byte*>(&record);
  for (;;) {
    const bool has_head = come_ >= head_bytes;
    if (has_head && (record.bytes == 0 || record.bytes > most_bytes)) return fail(EBADMSG);
    const std::size_t end = head_bytes + (has_head ? record.bytes + AesGcm::tag_bytes : 0);
    if (has_head && come_ == end) break;
    const ssize_t result = ::recv(socket, begin + come_, end - come_, MSG_DONTWAIT);
    if (result == 0) return ECONNRESET;
    if (result > 0) {
      come_ += static_cast<std::size_t>(result);
    } else if (errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
    }
  }
  come_ = 0;
  std::array<std::byte, AesGcm::tag_bytes> tag;
  const auto data = std::span(record.data).first(record.bytes);
  std::copy_n(record.data.begin() + record.bytes, tag.size(), tag.begin());
  if (!opener_.open(next_received_++, std::as_bytes(std::span(&record.bytes, 1)), data, tag)) return fail(EBADMSG);
  plain = data;
  return 0;
}

}  // namespace lockstep::detail
