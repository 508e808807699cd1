// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/zip_archive.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

namespace lockstep::input {
namespace {

constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;
constexpr std::uint32_t entry_signature = 0x02014b50;
constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::size_t end_bytes = 22;
constexpr std::size_t locator64_bytes = 20;
constexpr std::size_t end64_bytes = 56;
constexpr std::size_t entry_bytes = 46;
constexpr std::size_t local_bytes = 30;
constexpr std::uint64_t in_extra = std::numeric_limits<std::uint32_t>::max();  // marks a value in the extra field

/// Reads little-endian fields of a file, with bounds checks.
class Fields {
 public:
  explicit Fields(const MappedFile& file) noexcept : file_(file) {}

  [[nodiscard]] std::span<const std::byte> part(std::uint64_t offset, std::uint64_t bytes, const char* what) const {
    const std::span<const std::byte> all = file_.bytes();
    if (offset > all.size() || bytes > all.size() - offset) {
      detail::throw_error(Code::data_loss,
                          "{} is damaged or truncated: {} should have {} bytes at byte {}, but the file has {} bytes",
                          file_.name(), what, bytes, offset, all.size());
    }
    return all.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
  }
  template <class T>
  [[nodiscard]] static T number(std::span<const std::byte> bytes, std::size_t offset) noexcept {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(bytes[offset + i]) << (8 * i)));
    }
    return value;
  }
  void require(std::uint32_t signature, std::span<const std::byte> record, std::uint64_t offset,
               const char* what) const {
    const auto found = number<std::uint32_t>(record, 0);
    if (found == signature) return;
    detail::throw_error(Code::data_loss, "{} is damaged: {} at byte {} must begin with 0x{:08x}, found 0x{:08x}",
                        file_.name(), what, offset, signature, found);
  }
  [[nodiscard]] const MappedFile& file() const noexcept { return file_; }

 private:
  const MappedFile& file_;
};

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

/// Searches backwards for the end record, because a comment of at most 64 KiB may follow the end record.
std::uint64_t find_end(const MappedFile& file) {
  const std::span<const std::byte> all = file.bytes();
  const std::size_t furthest = end_bytes + std::numeric_limits<std::uint16_t>::max();
  for (std::size_t back = end_bytes; back <= std::min(furthest, all.size()); ++back) {
    const std::size_t at = all.size() - back;
    if (Fields::number<std::uint32_t>(all, at) == end_signature) return at;
  }
  detail::throw_error(Code::invalid_argument,
                      "{} is not a zip archive, or it is truncated: it has no end of central directory record",
                      file.name());
}

Directory find_directory(const Fields& fields) {
  const std::uint64_t at = find_end(fields.file());
  const auto end = fields.part(at, end_bytes, "the end of central directory record");
  Directory result{.offset = Fields::number<std::uint32_t>(end, 16),
                   .bytes = Fields::number<std::uint32_t>(end, 12),
                   .entries = Fields::number<std::uint16_t>(end, 10)};
  if (at < locator64_bytes) return result;
  const auto locator = fields.part(at - locator64_bytes, locator64_bytes, "the locator");
  if (Fields::number<std::uint32_t>(locator, 0) != locator64_signature) return result;
  const auto at64 = Fields::number<std::uint64_t>(locator, 8);
  const auto end64 = fields.part(at64, end64_bytes, "the 64 bit end record");
  fields.require(end64_signature, end64, at64, "the 64 bit end record");
  return {.offset = Fields::number<std::uint64_t>(end64, 48),
          .bytes = Fields::number<std::uint64_t>(end64, 40),
          .entries = Fields::number<std::uint64_t>(end64, 32)};
}

struct Sizes {
  std::uint64_t size = 0;
  std::uint64_t packed = 0;
  std::uint64_t local = 0;  // offset of the local header
};

/// Replaces values that do not fit in 32 bits by the values in the extra field.
void widen(Sizes& sizes, std::span<const std::byte> extra) noexcept {
  while (extra.size() >= 4) {
    const auto id = Fields::number<std::uint16_t>(extra, 0);
    const std::size_t bytes = std::min<std::size_t>(Fields::number<std::uint16_t>(extra, 2), extra.size() - 4);
    std::span<const std::byte> values = extra.subspan(4, bytes);
    extra = extra.subspan(4 + bytes);
    if (id != 1) continue;
    for (std::uint64_t* const value : {&sizes.size, &sizes.packed, &sizes.local}) {
      if (*value != in_extra || values.size() < 8) continue;
      *value = Fields::number<std::uint64_t>(values, 0);
      values = values.subspan(8);
    }
  }
}

void check_kind(const MappedFile& file, const ZipMember& member, unsigned flags, unsigned method) {
  if ((flags & 1U) != 0) {
    detail::throw_error(Code::invalid_argument,
                        "{}: {} is encrypted, which is not supported; save it without a password", file.name(),
                        member.name);
  }
  if (method != 0 && method != 8) {
    detail::throw_error(Code::invalid_argument,
                        "{}: {} is compressed by method {}; only stored (0) and deflated (8) members are supported",
                        file.name(), member.name, method);
  }
}

/// Reads the directory entry at `at`, and moves `at` to the next one.
ZipMember read_entry(const Fields& fields, std::uint64_t& at) {
  const auto entry = fields.part(at, entry_bytes, "an entry of the central directory");
  fields.require(entry_signature, entry, at, "an entry of the central directory");
  const auto name_bytes = Fields::number<std::uint16_t>(entry, 28);
  const auto extra_bytes = Fields::number<std::uint16_t>(entry, 30);
  const auto comment_bytes = Fields::number<std::uint16_t>(entry, 32);
  const auto name = fields.part(at + entry_bytes, name_bytes, "a member's name");
  Sizes sizes{Fields::number<std::uint32_t>(entry, 24), Fields::number<std::uint32_t>(entry, 20),
              Fields::number<std::uint32_t>(entry, 42)};
  widen(sizes, fields.part(at + entry_bytes + name_bytes, extra_bytes, "a member's extra field"));
  at += entry_bytes + name_bytes + extra_bytes + comment_bytes;

  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  const unsigned method = Fields::number<std::uint16_t>(entry, 10);
  check_kind(fields.file(), member, Fields::number<std::uint16_t>(entry, 8), method);
  member.is_deflated = method == 8;
  member.size = sizes.size;
  member.checksum = Fields::number<std::uint32_t>(entry, 16);

  const auto local = fields.part(sizes.local, local_bytes, "a member's header");
  fields.require(local_signature, local, sizes.local, "a member's header");
  const std::uint64_t begin =
      sizes.local + local_bytes + Fields::number<std::uint16_t>(local, 26) + Fields::number<std::uint16_t>(local, 28);
  member.packed = fields.part(begin, sizes.packed, "a member's content");
  if (!member.is_deflated && member.size != member.packed.size()) {
    detail::throw_error(Code::data_loss, "{} is damaged: {} is stored in {} bytes, but its size is given as {}",
                        fields.file().name(), member.name, member.packed.size(), member.size);
  }
  return member;
}

std::uint32_t checksum_of(std::uint32_t start, std::span<const std::byte> bytes) noexcept {
  return static_cast<std::uint32_t>(crc32_z(start, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

[[noreturn]] void throw_checksum(const std::string& name, std::uint32_t expected, std::uint32_t found) {
  detail::throw_error(Code::data_loss, "{} is corrupt: expected the checksum 0x{:08x}, but its content has 0x{:08x}",
                      name, expected, found);
}

/// A stream of a member's content, decompressed if necessary.
class MemberReader final : public ByteStream {
 public:
  MemberReader(std::shared_ptr<const MappedFile> file, ZipMember member, std::string name)
      : file_(std::move(file)), member_(std::move(member)), name_(std::move(name)) {
    if (!member_.is_deflated) return;
    const int status = inflateInit2(&stream_, -MAX_WBITS);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    LOCKSTEP_CHECK(status == Z_OK);
  }
  ~MemberReader() override {
    if (member_.is_deflated) inflateEnd(&stream_);
  }
  [[nodiscard]] std::size_t read(std::span<std::byte> bytes) override {
    const std::size_t count = member_.is_deflated ? unpack(bytes) : pass_on(bytes);
    checksum_ = checksum_of(checksum_, bytes.first(count));
    position_ += count;
    if (count < bytes.size()) finish();
    return count;
  }
  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  [[nodiscard]] std::uint64_t largest_content() const noexcept override {
    const std::uint64_t packed = member_.packed.size();
    const std::uint64_t most =
        std::min(packed, std::numeric_limits<std::uint64_t>::max() / best_deflate_ratio) * best_deflate_ratio;
    return member_.is_deflated ? std::min(member_.size, most) : packed;
  }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }

 private:
  std::size_t pass_on(std::span<std::byte> bytes) noexcept {
    const std::size_t count = std::min(bytes.size(), member_.packed.size() - taken_);
    std::copy_n(member_.packed.begin() + static_cast<std::ptrdiff_t>(taken_), count, bytes.begin());
    taken_ += count;
    return count;
  }
  std::size_t unpack(std::span<std::byte> bytes) {
    std::size_t done = 0;
    while (done < bytes.size() && !ended_) {
      constexpr std::size_t most = std::numeric_limits<uInt>::max();
      const std::size_t left = std::min(member_.packed.size() - taken_, most);
      const std::size_t free = std::min(bytes.size() - done, most);
      // zlib does not write to its input
      stream_.next_in =
          const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(member_.packed.data() + taken_));
      stream_.avail_in = static_cast<uInt>(left);
      stream_.next_out = reinterpret_cast<unsigned char*>(bytes.data() + done);
      stream_.avail_out = static_cast<uInt>(free);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      taken_ += left - stream_.avail_in;
      done += free - stream_.avail_out;
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      ended_ = status == Z_STREAM_END;
      if (!ended_ && (status != Z_OK || (left == 0 && stream_.avail_out == free))) {
        detail::throw_error(Code::data_loss, "{} is corrupt: invalid compressed data after {} decompressed bytes ({})",
                            name_, position_ + done, stream_.msg != nullptr ? stream_.msg : "unexpected end");
      }
    }
    return done;
  }
  void finish() const {
    if (position_ != member_.size) {
      detail::throw_error(Code::data_loss, "{} is damaged: its content has {} bytes, but its size is given as {}",
                          name_, position_, member_.size);
    }
    if (checksum_ != member_.checksum) throw_checksum(name_, member_.checksum, checksum_);
  }

  std::shared_ptr<const MappedFile> file_;
  ZipMember member_;
  std::string name_;
  std::size_t taken_ = 0;  // number of compressed bytes consumed
  std::uint64_t position_ = 0;
  std::uint32_t checksum_ = 0;
  bool ended_ = false;
  z_stream stream_{};
};

}  // namespace

ZipArchive::ZipArchive(const std::string& path) : file_(std::make_shared<const MappedFile>(path)) {
  const Fields fields(*file_);
  const Directory directory = find_directory(fields);
  static_cast<void>(fields.part(directory.offset, directory.bytes, "the directory"));
  const std::uint64_t most = directory.bytes / entry_bytes;
  if (directory.entries > most) {
    detail::throw_error(Code::data_loss, "{} is damaged: a directory of {} bytes cannot have {} entries", file_->name(),
                        directory.bytes, directory.entries);
  }
  std::uint64_t at = directory.offset;
  std::uint64_t left = file_->bytes().size();
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const ZipMember& member = members_.emplace_back(read_entry(fields, at));
    if (member.packed.size() > left) {  // if members overlap, a small file could expand to any number of arrays
      detail::throw_error(Code::data_loss, "{} is damaged: its members overlap", file_->name());
    }
    left -= member.packed.size();
  }
}

std::unique_ptr<ByteStream> ZipArchive::open(const ZipMember& member) const {
  return std::make_unique<MemberReader>(file_, member, name_of(member));
}

void ZipArchive::check(const ZipMember& member) const {
  const std::uint32_t found = checksum_of(0, member.packed);
  if (found != member.checksum) throw_checksum(name_of(member), member.checksum, found);
}

std::string ZipArchive::name_of(const ZipMember& member) const { return file_->name() + ":" + member.name; }

}  // namespace lockstep::input
