// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// The code that runs on a GPU is plain C++, which the host's compiler accepts, too. So tests can run the code of the
// kernels on the host. Only CUDA's compiler needs __device__; nothing else depends on the compiler.
#ifdef __CUDACC__
#define LOCKSTEP_DEVICE __device__
#else
#define LOCKSTEP_DEVICE
#endif
