// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of named tensors in the safetensors format, which Python and most tools of the field read and write.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep {

struct SafetensorsFile {
  std::map<std::string, Tensor> tensors;
  /// Free text, the format's __metadata__.
  std::map<std::string, std::string> metadata;
};

/// Reads the whole file, whatever wrote it. Local. Memory: that of the tensors. Throws Error that names file, tensor
/// and reason: invalid_argument for a file that is missing, failed_precondition for one that may not be read, data_loss
/// for one that is truncated, damaged or of another kind, unimplemented for element types that lockstep has not and for
/// more than Shape::max_rank axes.
[[nodiscard]] LOCKSTEP_API SafetensorsFile load_safetensors(const std::filesystem::path& file);

/// Writes `content` to `file`, which is replaced in one step when everything is on the disk. Local: one rank writes.
/// Tensors may lie on GPUs.
/// Throws Error that names the file: invalid_argument for a folder that is missing or a name that is no UTF-8,
/// failed_precondition where writing is not allowed, unavailable where there is no space; `file` is as before then.
LOCKSTEP_API void save_safetensors(const std::filesystem::path& file, const SafetensorsFile& content);

}  // namespace lockstep
