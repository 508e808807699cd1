// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

/// Marks a symbol as exported by the shared library; all other symbols are hidden.
#define LOCKSTEP_API [[gnu::visibility("default")]]
