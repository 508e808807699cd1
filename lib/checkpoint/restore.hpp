// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Restores a checkpoint: reads and checks everything, agrees with all ranks that nothing failed, and only then changes
// the tracked objects, by operations that cannot fail.

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
  Path file_;                         // file of the tensors
  std::string label_;                 // prefix of error texts, with the file's name
  std::optional<Manifest> manifest_;  // none if a plain safetensors file is restored
  std::uint64_t fingerprint_ = 0;     // checksums of manifest and header; identifies the file
  SafetensorsHeader header_;
  std::map<std::string, Tensor> loaded_;
  std::vector<std::function<void()>> changes_;  // of the tracked objects that are not variables
};

}  // namespace lockstep::detail
