// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/files_node.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "input/stream_nodes.hpp"

#include <cstring>
#include <utility>

namespace lockstep::input {
namespace {

class FilesNode final : public Node {
 public:
  FilesNode(FileList files, OpenFile open, const InterleaveOptions& options) noexcept
      : files_(std::move(files)), open_(std::move(open)), options_(options) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    auto next = [files = files_, open = open_, options, i = std::size_t{0}]() mutable -> std::unique_ptr<Cursor> {
      return i < files.size() ? open(files[i++], options) : nullptr;
    };
    return interleaved(std::move(next), options_);
  }
  [[nodiscard]] Cardinality cardinality() const override { return Cardinality::unknown(); }
  [[nodiscard]] std::vector<std::string> files() const override { return files_; }
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const override {
    if (!restriction.files) return shared_from_this();
    return std::make_shared<FilesNode>(part_of(files_, *restriction.files), open_, options_);
  }

 private:
  FileList files_;
  OpenFile open_;
  InterleaveOptions options_;
};

}  // namespace

std::shared_ptr<const Node> files_node(const char* reader, FileList files, OpenFile open,
                                       const InterleaveOptions& options) {
  check_files(reader, files);
  check_options(reader, options);
  return std::make_shared<FilesNode>(std::move(files), std::move(open), options);
}

void check_options(const char* reader, const RecordOptions& options) {
  constexpr std::size_t most = std::size_t{1} << 40U;
  if (options.max_record_bytes >= 1 && options.max_record_bytes <= most) return;
  detail::throw_error(Code::invalid_argument, "{}: max_record_bytes is {}; it must be in 1 to {}", reader,
                      options.max_record_bytes, most);
}

void check_files(const char* reader, const FileList& files) {
  if (!files.empty()) return;
  detail::throw_error(Code::invalid_argument, "{}: the list of files is empty; at least one file is required", reader);
}

FileList part_of(const FileList& files, const Part& part) {
  FileList some;
  for (std::size_t i = static_cast<std::size_t>(part.index); i < files.size();
       i += static_cast<std::size_t>(part.count)) {
    some.push_back(files[i]);
  }
  if (some.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "shard by file: with {} of {}, shard {} has no file (the first file is {}); use "
                        "at least as many files as shards, or shard elements instead",
                        detail::counted(part.count, "shard"), detail::counted(files.size(), "file"), part.index,
                        files.front());
  }
  return some;
}

void BytesCursor::read_rows(std::int64_t first, std::int64_t count, Leaves& element) {
  Tensor bytes = Tensor::uninitialized(DType::u8, Shape{count}, memory_);
  if (count != 0) std::memcpy(bytes.data(), present_.data() + first, static_cast<std::size_t>(count));
  element.assign(1, bytes);
}

}  // namespace lockstep::input
