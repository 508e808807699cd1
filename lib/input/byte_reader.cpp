// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/byte_reader.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>

namespace lockstep::input {
namespace {

constexpr std::size_t packed_bytes = 64 * 1024;
constexpr int gzip_only = 16 + MAX_WBITS;
constexpr std::size_t shortest_gzip = 18;

std::string errno_text(int error) { return std::generic_category().message(error); }

}  // namespace

ByteStream::~ByteStream() = default;

std::size_t SpanReader::read(std::span<std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), bytes_.size() - position_);
  if (count != 0) std::memcpy(bytes.data(), bytes_.data() + position_, count);
  position_ += count;
  return count;
}

ByteReader::ByteReader(const std::string& path) : name_(path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    detail::throw_error(Code::invalid_argument, "cannot read {}: {}", name_, errno_text(EISDIR));
  }
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_) detail::throw_error(Code::invalid_argument, "cannot open {}: {}", name_, errno_text(errno));
  file_bytes_ = std::filesystem::file_size(path, error);
  if (error) detail::throw_error(Code::invalid_argument, "cannot read {}: {}", name_, error.message());
  detect_gzip();
  if (!gzip_) return;
  packed_.resize(packed_bytes);
  const int status = inflateInit2(&stream_, gzip_only);
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  LOCKSTEP_CHECK(status == Z_OK);
}

ByteReader::~ByteReader() {
  if (gzip_) inflateEnd(&stream_);
}

std::uint64_t ByteReader::largest_content() const noexcept {
  if (!gzip_) return file_bytes_;
  return std::min(file_bytes_, std::numeric_limits<std::uint64_t>::max() / best_deflate_ratio) * best_deflate_ratio;
}

void ByteReader::detect_gzip() {
  std::array<unsigned char, 4> bytes{};
  const std::size_t count = std::fread(bytes.data(), 1, 2, file_.get());
  gzip_ = count == 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
  if (gzip_ && file_bytes_ < shortest_gzip) {
    detail::throw_error(Code::data_loss, "{} is truncated: gzip data has at least {} bytes, found {}", name_,
                        shortest_gzip, file_bytes_);
  }
  if (gzip_ && std::fseek(file_.get(), -4, SEEK_END) == 0 && std::fread(bytes.data(), 1, 4, file_.get()) == 4) {
    for (std::size_t i = 0; i < 4; ++i) trailer_length_ |= std::uint32_t{bytes[i]} << (8 * i);
  }
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) {
    detail::throw_error(Code::invalid_argument, "cannot read {}: {}", name_, errno_text(errno));
  }
}

std::size_t ByteReader::read(std::span<std::byte> bytes) {
  const std::size_t count = gzip_ ? unpack(bytes) : std::fread(bytes.data(), 1, bytes.size(), file_.get());
  if (std::ferror(file_.get()) != 0)
    detail::throw_error(Code::data_loss, "cannot read {}: {}", name_, errno_text(errno));
  position_ += count;
  return count;
}

bool ByteReader::fill() {
  if (stream_.avail_in == 0) {
    stream_.next_in = packed_.data();
    stream_.avail_in = static_cast<uInt>(std::fread(packed_.data(), 1, packed_.size(), file_.get()));
  }
  return stream_.avail_in != 0;
}

std::size_t ByteReader::unpack(std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size() && !ended_) {
    if (!fill()) {
      detail::throw_error(Code::data_loss,
                          "{} is truncated: its gzip data ends after {} decompressed bytes, before its checksum", name_,
                          position_ + done);
    }
    const auto free = static_cast<uInt>(std::min<std::size_t>(bytes.size() - done, std::numeric_limits<uInt>::max()));
    stream_.next_out = reinterpret_cast<unsigned char*>(bytes.data() + done);
    stream_.avail_out = free;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    done += free - stream_.avail_out;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_STREAM_END) {
      finish_member();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      detail::throw_error(Code::data_loss, "{} is corrupt: invalid gzip data after {} decompressed bytes ({})", name_,
                          position_ + done, stream_.msg != nullptr ? stream_.msg : "no reason given");
    }
  }
  return done;
}

void ByteReader::finish_member() {
  if (!fill()) {
    ended_ = true;
  } else if (*stream_.next_in == 0x1f) {  // another member follows, which gzip allows
    LOCKSTEP_CHECK(inflateReset(&stream_) == Z_OK);
  } else {
    detail::throw_error(Code::data_loss, "{} is corrupt: bytes follow the end of its gzip data", name_);
  }
}

}  // namespace lockstep::input
