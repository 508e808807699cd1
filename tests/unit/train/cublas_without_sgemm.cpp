// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What is opened in cuBLAS' place: all that lockstep-train asks for but products.

// NOLINTBEGIN(readability-identifier-naming): names of cuBLAS
extern "C" {
void cublasCreate_v2() {}
void cublasDestroy_v2() {}
void cublasGetProperty() {}
void cublasGetStatusName() {}
void cublasSetStream_v2() {}
void cublasSetWorkspace_v2() {}
}
// NOLINTEND(readability-identifier-naming)
