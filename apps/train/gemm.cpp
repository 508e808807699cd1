// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// oneDNN rather than OpenBLAS: if OpenBLAS does not know a CPU by name (0.3.21 on Zen 5), it falls back to its AVX2
// kernels; oneDNN queries the instruction sets. That halves the time of these products. Moreover, the number of threads
// is a property of the calling thread in oneDNN, and of the whole process in OpenBLAS.

#include "train/gemm.hpp"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace train {
namespace {

static_assert(DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP || DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_SEQ,
              "OneThread limits OpenMP only; oneDNN over TBB or a thread pool would compute in several threads");

/// During its lifetime, OpenMP regions of this thread have one thread: a replica is one thread, and other replicas use
/// the other cores.
class OneThread {
 public:
  OneThread() : threads_before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { omp_set_num_threads(threads_before_); }

 private:
  int threads_before_;
};

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b, float* c, Output output) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (output == Output::overwrite) std::fill_n(c, m * n, 0.0F);
    return;
  }
  const OneThread one_thread;
  const std::int64_t a_stride = a.layout == Layout::plain ? k : m;
  const std::int64_t b_stride = b.layout == Layout::plain ? n : k;
  const dnnl_status_t status =
      dnnl_sgemm(static_cast<char>(a.layout), static_cast<char>(b.layout), m, n, k, 1.0F, a.data, a_stride, b.data,
                 b_stride, output == Output::overwrite ? 0.0F : 1.0F, c, n);
  if (status != dnnl_success) {
    throw std::runtime_error("gemm: oneDNN failed with status " + std::to_string(status) + " on m " +
                             std::to_string(m) + ", n " + std::to_string(n) + ", k " + std::to_string(k));
  }
}

}  // namespace train
