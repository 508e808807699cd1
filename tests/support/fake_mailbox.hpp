// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A directory in which the ranks of a fake communicator leave each other messages, be they threads of one process or
// processes of one host.

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

/// A message is a file that appears whole and is never changed. Thread-safe.
class FakeMailbox {
 public:
  explicit FakeMailbox(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// An empty directory of a name that nobody else has. Throws std::filesystem::filesystem_error. Those that a killed
  /// process has left behind long ago go with this.
  [[nodiscard]] static std::filesystem::path make_directory();

  /// One message under each of `names`. False when one is there already, or the directory is not.
  [[nodiscard]] bool post(const std::vector<std::string>& names, std::span<const std::byte> message) const;
  [[nodiscard]] std::optional<Bytes> read(const std::string& name) const;
  void discard(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const;
  /// Those whose names begin so; 0 where the directory is gone.
  [[nodiscard]] std::size_t count(const std::string& beginning) const;
  /// Removes the whole directory. What goes wrong with that does not matter.
  void remove() const;

  /// Counts what was posted and discarded in this process.
  [[nodiscard]] static std::uint64_t changes();
  /// Waits until there are more than `seen`, or for some time, as other processes do not count here.
  static void wait_for_change(std::uint64_t seen);
  /// Wakes who waits so.
  static void ring();

 private:
  std::filesystem::path directory_;
};

}  // namespace lockstep::test
