// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads TFRecord files. A record is its length (u64), the masked CRC-32C of the length, its bytes, and the masked
// CRC-32C of the bytes, all little-endian.

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "base/phrases.hpp"
#include "input/files_node.hpp"
#include "input/mapped_file.hpp"

#include <lockstep/input/records.hpp>

#include <memory>
#include <utility>

namespace lockstep::input {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::size_t head_bytes = 12;
constexpr std::size_t checksum_bytes = 4;

template <class T>
T little_endian(std::span<const std::byte> bytes) noexcept {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8U | std::to_integer<T>(bytes[i]));
  return value;
}

/// The masking of TFRecord: without it, the CRC of data that contains CRCs would be a weak check.
std::uint32_t masked(std::uint32_t crc) noexcept { return (crc >> 15U | crc << 17U) + 0xa282ead8U; }

bool has_checksum(std::span<const std::byte> bytes, std::size_t count) noexcept {
  return masked(detail::crc32c(bytes.first(count))) == little_endian<std::uint32_t>(bytes.subspan(count));
}

/// Opens a file, and detects gzip data. A plain file whose first record has 35615 bytes begins with the same two bytes
/// as gzip data, so the checksum of the length decides.
std::unique_ptr<FileWindow> open_window(const std::string& path) {
  auto plain = std::make_unique<FileWindow>(path, FileWindow::Packing::none);
  const bool is_plain =
      !is_gzip(plain->view()) || (plain->ensure(head_bytes) && has_checksum(plain->view(), length_bytes));
  return is_plain ? std::move(plain) : std::make_unique<FileWindow>(path);
}

class TfRecordCursor final : public BytesCursor {
 public:
  TfRecordCursor(const std::string& path, std::size_t max_record_bytes, std::shared_ptr<MemoryResource> memory)
      : BytesCursor(std::move(memory)), window_(open_window(path)), max_record_bytes_(max_record_bytes) {}
  bool advance() override {
    window_->skip(passed_);
    passed_ = 0;
    if (!window_->ensure(1)) return false;
    if (!window_->ensure(head_bytes)) throw_truncated(head_bytes);
    const std::size_t length = checked_length();
    if (!window_->ensure(head_bytes + length + checksum_bytes)) throw_truncated(head_bytes + length + checksum_bytes);
    const std::span<const std::byte> record = window_->view().subspan(head_bytes, length + checksum_bytes);
    if (!has_checksum(record, length)) {
      detail::throw_error(Code::data_loss, "{} is corrupt: wrong checksum of the record of {} bytes at byte {}",
                          window_->name(), length, window_->position());
    }
    present_ = record.first(length);
    passed_ = head_bytes + length + checksum_bytes;
    return true;
  }

 private:
  [[nodiscard]] std::size_t checked_length() const {
    const std::span<const std::byte> head = window_->view();
    if (!has_checksum(head, length_bytes)) {
      detail::throw_error(Code::data_loss, "{} {}: wrong checksum of the length of the record at byte {}",
                          window_->name(), window_->position() == 0 ? "is not a TFRecord file" : "is corrupt",
                          window_->position());
    }
    const auto length = little_endian<std::uint64_t>(head);
    if (length > max_record_bytes_) {
      detail::throw_error(Code::data_loss, "{}: the record at byte {} has {} bytes, more than max_record_bytes ({})",
                          window_->name(), window_->position(), length, max_record_bytes_);
    }
    return static_cast<std::size_t>(length);
  }
  [[noreturn]] void throw_truncated(std::size_t bytes) const {
    detail::throw_error(Code::data_loss, "{} is truncated: the record at byte {} needs {}, found {}", window_->name(),
                        window_->position(), detail::counted(bytes, "byte"), window_->view().size());
  }

  std::unique_ptr<FileWindow> window_;
  std::size_t max_record_bytes_;
  std::size_t passed_ = 0;  // size of the current record, with length and checksums
};

}  // namespace

Pipeline tfrecords(const FileList& files, const RecordOptions& options) {
  check_options("tfrecord_dataset", options);
  auto open = [most = options.max_record_bytes](const std::string& path, const PassOptions& pass) {
    return std::make_unique<TfRecordCursor>(path, most, pass.memory);
  };
  return Pipeline::from_node(files_node("tfrecord_dataset", files, std::move(open), options.interleave));
}

}  // namespace lockstep::input
