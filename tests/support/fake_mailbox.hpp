// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A directory through which the ranks of a fake communicator exchange messages: threads of one process or processes of
// one host.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

using Bytes = std::vector<std::byte>;

/// A message is a file that is created whole and never changed. Thread-safe.
class FakeMailbox {
 public:
  explicit FakeMailbox(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Creates an empty directory with a unique name. Throws std::filesystem::filesystem_error. Also removes old
  /// directories of killed processes.
  [[nodiscard]] static std::filesystem::path make_directory();

  /// Posts one message under each of `names`. False if one exists already, or the directory does not.
  [[nodiscard]] bool post(const std::vector<std::string>& names, std::span<const std::byte> message) const;
  [[nodiscard]] std::optional<Bytes> read(const std::string& name) const;
  void discard(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const;
  /// The number of messages with that prefix; 0 if the directory has been removed.
  [[nodiscard]] std::size_t count(const std::string& beginning) const;
  /// Removes the whole directory. Errors are ignored.
  void remove() const;

  /// The number of messages posted and discarded in this process.
  [[nodiscard]] static std::uint64_t changes();
  /// Waits until there are more changes than `seen`, but not for long: changes by other processes are not counted.
  static void wait_for_change(std::uint64_t seen);
  /// Wakes all waiting threads.
  static void ring();

 private:
  std::filesystem::path directory_;
};

}  // namespace lockstep::test
