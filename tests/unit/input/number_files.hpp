// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

#include "support/temporary_directory.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace lockstep::test {

/// Files of numbers: text for streams, or 8 bytes per number for random access. Removed in the destructor.
class NumberFiles {
 public:
  explicit NumberFiles(const std::vector<std::vector<std::int64_t>>& files) {
    for (const std::vector<std::int64_t>& numbers : files) {
      const auto name = folder_.path() / std::to_string(text_.size());
      text_.push_back(name.string() + ".txt");
      bytes_.push_back(name.string() + ".bin");
      std::ofstream text(text_.back());
      std::ofstream bytes(bytes_.back(), std::ios::binary);
      for (const std::int64_t number : numbers) {
        text << number << '\n';
        bytes.write(reinterpret_cast<const char*>(&number), sizeof(number));
      }
    }
  }

  [[nodiscard]] Dataset<Tensor> lines() const {
    return text_line_dataset(text_).map([](const Tensor& line) {
      const auto bytes = line.elements<std::uint8_t>();
      return Tensor::scalar(std::int64_t{std::stoll(std::string(bytes.begin(), bytes.end()))});
    });
  }
  [[nodiscard]] Dataset<Tensor> records() const {
    return fixed_length_record_dataset(bytes_, sizeof(std::int64_t)).map([](const Tensor& record) {
      std::int64_t number = 0;
      std::memcpy(&number, record.data(), sizeof(number));
      return Tensor::scalar(number);
    });
  }
  [[nodiscard]] const FileList& text() const { return text_; }

 private:
  TemporaryDirectory folder_;
  FileList text_;
  FileList bytes_;
};

}  // namespace lockstep::test
