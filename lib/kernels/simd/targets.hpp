// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which of Highway's targets are compiled; stands before every header of Highway. The same in all sources: what is
// chosen at run time is chosen from one list.

#pragma once

// By bits, since older releases do not have all of the names. Left out are the variants of AVX-512 (0..7: nothing in
// here is faster with them) and SSSE3 (12), to spare the time of compiling them, and the targets whose vectors have no
// size at compile time: SVE (15..27) and RVV (37).
#define HWY_DISABLED_TARGETS (((1LL << 8) - 1) | (1LL << 12) | (((1LL << 13) - 1) << 15) | (1LL << 37))
