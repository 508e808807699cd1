// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/check.hpp"
#include "input/files_node.hpp"
#include "input/mapped_file.hpp"

#include <lockstep/input/records.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::input {
namespace {

class LinesCursor final : public BytesCursor {
 public:
  LinesCursor(const std::string& path, std::size_t max_record_bytes, std::shared_ptr<MemoryResource> memory)
      : BytesCursor(std::move(memory)), window_(path), max_record_bytes_(max_record_bytes) {}
  bool advance() override {
    window_.skip(passed_);
    passed_ = 0;
    if (!window_.ensure(1)) return false;
    const std::size_t length = line_length();
    present_ = window_.view().first(length);
    passed_ = std::min(length + 1, window_.view().size());
    if (!present_.empty() && present_.back() == std::byte{'\r'}) present_ = present_.first(length - 1);
    return true;
  }

 private:
  /// Length of the current line without its line end. The last line of a file may have no line end.
  [[nodiscard]] std::size_t line_length() {
    for (std::size_t seen = 0;;) {
      const std::span<const std::byte> view = window_.view();
      const std::size_t end = std::min(view.size(), max_record_bytes_ + 1);
      if (const void* const found = std::memchr(view.data() + seen, '\n', end - seen)) {
        return static_cast<std::size_t>(static_cast<const std::byte*>(found) - view.data());
      }
      if (end > max_record_bytes_) {
        detail::throw_error(Code::data_loss, "{}: the line at byte {} has more than max_record_bytes ({}) bytes",
                            window_.name(), window_.position(), max_record_bytes_);
      }
      seen = view.size();
      if (!window_.ensure(2 * seen) && window_.view().size() == seen) return seen;
    }
  }

  FileWindow window_;
  std::size_t max_record_bytes_;
  std::size_t passed_ = 0;  // bytes of the current line, with its line end
};

}  // namespace

Pipeline text_lines(const FileList& files, const RecordOptions& options) {
  check_options("text_line_dataset", options);
  auto open = [most = options.max_record_bytes](const std::string& path, const PassOptions& pass) {
    return std::make_unique<LinesCursor>(path, most, pass.memory);
  };
  return Pipeline::from_node(files_node("text_line_dataset", files, std::move(open), options.interleave));
}

}  // namespace lockstep::input
