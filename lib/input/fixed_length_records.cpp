// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/check.hpp"
#include "input/files_node.hpp"
#include "input/mapped_file.hpp"
#include "input/mapped_rows.hpp"

#include <lockstep/input/records.hpp>

#include <memory>
#include <utility>

namespace lockstep::input {
namespace {

/// The layout of a file, in bytes.
struct Layout {
  std::size_t record = 1;
  std::size_t header = 0;
  std::size_t footer = 0;
};

[[noreturn]] void throw_length(const std::string& name, const Layout& layout, const char* bytes_of_what,
                               std::uint64_t found) {
  detail::throw_error(Code::data_loss,
                      "fixed_length_record_dataset: {} does not consist of header_bytes ({}), whole records of "
                      "record_bytes ({}) and footer_bytes ({}): {} {} bytes; the file is truncated, or one of these "
                      "numbers is wrong",
                      name, layout.header, layout.record, layout.footer, bytes_of_what, found);
}

class PackedRecordsCursor final : public BytesCursor {
 public:
  PackedRecordsCursor(const std::string& path, const Layout& layout, std::shared_ptr<MemoryResource> memory)
      : BytesCursor(std::move(memory)), window_(path, FileWindow::Packing::gzip), layout_(layout) {
    if (!window_.ensure(layout.header + layout.footer)) {
      throw_length(window_.name(), layout_, "the decompressed content has", window_.view().size());
    }
    window_.skip(layout.header);
  }
  bool advance() override {
    window_.skip(present_.size());
    present_ = {};
    if (window_.ensure(layout_.record + layout_.footer)) {
      present_ = window_.view().first(layout_.record);
      return true;
    }
    const std::size_t left = window_.view().size();
    if (left != layout_.footer) throw_length(window_.name(), layout_, "the end after the last whole record has", left);
    return false;
  }

 private:
  FileWindow window_;
  Layout layout_;
};

RowBlock block_of_file(const std::string& path, const Layout& layout) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  const std::size_t around = layout.header + layout.footer;
  if (bytes.size() < around || (bytes.size() - around) % layout.record != 0) {
    throw_length(file->name(), layout, "the file has", bytes.size());
  }
  return {.owner = std::move(file),
          .first = bytes.data() + layout.header,
          .rows = static_cast<std::int64_t>((bytes.size() - around) / layout.record),
          .kind = {DType::u8, Shape{static_cast<std::int64_t>(layout.record)}, false}};
}

std::size_t checked(const char* name, std::int64_t bytes, std::int64_t least) {
  constexpr std::int64_t most = std::int64_t{1} << 40U;
  if (bytes < least || bytes > most) {
    detail::throw_error(Code::invalid_argument, "fixed_length_record_dataset: {} is {}; it must be in {} to {}", name,
                        bytes, least, most);
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace

Pipeline fixed_length_records(const FileList& files, std::int64_t record_bytes,
                              const FixedLengthRecordOptions& options) {
  constexpr const char* reader = "fixed_length_record_dataset";
  const Layout layout{checked("record_bytes", record_bytes, 1), checked("header_bytes", options.header_bytes, 0),
                      checked("footer_bytes", options.footer_bytes, 0)};
  check_files(reader, files);
  if (options.compression == Compression::gzip) {
    auto open = [layout](const std::string& path, const PassOptions& pass) {
      return std::make_unique<PackedRecordsCursor>(path, layout, pass.memory);
    };
    return Pipeline::from_node(files_node(reader, files, std::move(open), {}));
  }
  std::vector<RowBlock> blocks;
  for (const std::string& path : files) blocks.push_back(block_of_file(path, layout));
  return pipeline_of(mapped_rows(reader, files, std::move(blocks)));
}

}  // namespace lockstep::input
