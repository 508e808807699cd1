// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of named tensors in the safetensors format, which Python and most machine-learning tools read and write.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>

#include <map>
#include <string>

namespace lockstep {

struct SafetensorsFile {
  std::map<std::string, Tensor> tensors;
  /// The entry __metadata__ of the file: texts by key.
  std::map<std::string, std::string> metadata;
};

/// Reads a whole safetensors file, which any program may have written. Local.
/// Memory: that of the tensors.
/// Throws Error with file, tensor and reason: invalid_argument if the file does not exist; failed_precondition if the
/// process may not read the file; data_loss if the file is truncated, damaged or not a safetensors file; unimplemented
/// if a tensor has an element type that lockstep does not support, or more than Shape::max_rank axes.
[[nodiscard]] LOCKSTEP_API SafetensorsFile load_safetensors(const std::string& file);

/// Writes `content` to `file`. If `file` exists, it is replaced atomically, after the new content has been written to
/// the disk. Local; only one rank may write a given file. Tensors may be on GPUs.
/// Throws Error with the file's name, and leaves `file` unchanged: invalid_argument if the folder does not exist or a
/// name is not UTF-8; failed_precondition if the process may not write the file; unavailable if there is no space on
/// the disk. Exception: if the folder cannot be flushed to the disk after the replacement, throws, and `file` has the
/// new content.
LOCKSTEP_API void save_safetensors(const std::string& file, const SafetensorsFile& content);

}  // namespace lockstep
