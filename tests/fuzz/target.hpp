// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the fuzz targets. Each target reads its input as a file of one format, and may throw only lockstep::Error.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/input/dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fuzz {

/// A file in memory that has a path.
class File {
 public:
  File(const std::uint8_t* data, std::size_t size) : fd_(memfd_create("input", MFD_CLOEXEC)) {
    for (std::size_t done = 0; done < size;) {
      const ssize_t count = write(fd_, data + done, size - done);
      if (count <= 0) __builtin_trap();
      done += static_cast<std::size_t>(count);
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }
  [[nodiscard]] std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// Reads every byte, so that sanitizers detect invalid ones.
inline void look_at(const lockstep::Tensor& tensor) {
  unsigned sum = 0;
  for (const auto byte : std::span(static_cast<const unsigned char*>(tensor.data()), tensor.byte_count())) sum += byte;
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

/// Calls `read(path)` with a file of `data`; it may return or throw lockstep::Error.
template <class Read>
void run(const std::uint8_t* data, std::size_t size, Read&& read) {
  const File file(data, size);
  try {
    read(file.path());
  } catch (const lockstep::Error&) {  // NOLINT(bugprone-empty-catch)
  }
}

/// Reads the first elements and batches of `dataset`; not all, because a header may declare 2^40 rows without bytes.
template <class T>
void read_some(const lockstep::Dataset<T>& dataset) {
  constexpr std::int64_t most = 2000;
  for (const T& element : dataset.take(most)) {
    lockstep::for_each_leaf(element, [](const lockstep::Tensor& leaf) { look_at(leaf); });
  }
  for (const T& batch : dataset.take(most).shuffle(1).batch(7)) {
    lockstep::for_each_leaf(batch, [](const lockstep::Tensor& leaf) { look_at(leaf); });
  }
}

}  // namespace fuzz
