// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "input/array_files.hpp"

namespace lockstep::input {

/// The header of a .npy file: versions 1 to 3.
[[nodiscard]] ArrayHeader parse_npy_header(ByteStream& stream);

}  // namespace lockstep::input
