// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// What runs on a GPU is plain C++, which the host's compiler takes as well: tests run the very code of the kernels.
// CUDA's compiler alone wants it marked, and nothing else in this library asks which compiler it is.
#ifdef __CUDACC__
#define LOCKSTEP_DEVICE __device__
#else
#define LOCKSTEP_DEVICE
#endif
