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
  /// The format's __metadata__: free text by key.
  std::map<std::string, std::string> metadata;
};

/// Reads a whole file, written by any program. Local.
/// Memory: that of the tensors.
/// Throws Error with file, tensor and reason: invalid_argument if the file does not exist, failed_precondition if it
/// may not be read, data_loss if it is truncated, damaged or not a safetensors file, unimplemented for element types
/// that lockstep does not support and for more than Shape::max_rank axes.
[[nodiscard]] LOCKSTEP_API SafetensorsFile load_safetensors(const std::string& file);

/// Writes `content` to `file`, which is replaced atomically once everything is on the disk. Local: call it on one rank.
/// Tensors may be on GPUs.
/// Throws Error with the file's name: invalid_argument if the folder does not exist or a name is not UTF-8,
/// failed_precondition if writing is not allowed, unavailable if there is no space; `file` is unchanged then.
LOCKSTEP_API void save_safetensors(const std::string& file, const SafetensorsFile& content);

}  // namespace lockstep
