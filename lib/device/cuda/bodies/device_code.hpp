// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// The code that runs on a GPU is plain C++ that the host's compiler accepts as well: tests run the very code of the
// kernels. Only CUDA's compiler needs it marked, and nothing else in this library depends on the compiler.
#ifdef __CUDACC__
#define LOCKSTEP_DEVICE __device__
#else
#define LOCKSTEP_DEVICE
#endif
