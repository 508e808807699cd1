// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

/// Marks what the shared library exports; everything else is hidden.
#define LOCKSTEP_API [[gnu::visibility("default")]]
