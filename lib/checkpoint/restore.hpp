// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How a checkpoint comes back: everything is read and checked, all ranks agree that nothing is wrong, and then
// everything is changed, by what cannot fail.

#pragma once

#include "checkpoint/implementation.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

class Restore {
 public:
  Restore(Checkpoint::Implementation& checkpoint, const Path& path, const RestoreOptions& options);

  /// Collective; returns the step.
  std::int64_t run();

 private:
  void read();
  void check_names() const;
  [[nodiscard]] bool is_known(const std::string& name) const;
  void check_tensor(const std::string& name, const Variable& variable) const;
  [[nodiscard]] const TensorEntry* find(const std::string& name) const;
  [[nodiscard]] bool copies_fit(const std::string& name, const Variable& variable) const;
  [[nodiscard]] Tensor load(const File& file, const TensorEntry& entry) const;
  void check_block(std::span<const std::byte> bytes, const TensorEntry& entry, std::size_t number) const;
  void prepare_words();
  void write() const;

  Checkpoint::Implementation& checkpoint_;
  Path path_;
  RestoreOptions options_;
  Path file_;                         // of the tensors
  std::string label_;                 // the file, for errors
  std::optional<Manifest> manifest_;  // not of a bare file
  std::uint64_t fingerprint_ = 0;     // of manifest and header: which file this is
  SafetensorsHeader header_;
  std::map<std::string, Tensor> loaded_;
  std::vector<std::function<void()>> changes_;  // of what is no variable
};

}  // namespace lockstep::detail
