// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The files that a dataset reads.

#pragma once

#include <filesystem>
#include <vector>

namespace lockstep {

/// Files in the order in which they are read. A dataset of files opens each when its turn comes, so that a rank which
/// is given some of them need not see the others, unless its reader says otherwise.
using FileList = std::vector<std::filesystem::path>;

}  // namespace lockstep
