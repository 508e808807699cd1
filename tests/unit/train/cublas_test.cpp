// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/gpu/cublas.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace train::gpu {
namespace {

std::string beside_this_program(const std::string& file) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(file).string();
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Cublas, is_named_where_it_does_not_open) {
  const CublasLibrary library = open_cublas("/nowhere/libcublas.so.13");
  EXPECT_EQ(library.api, nullptr);
  expect_in("cannot open cuBLAS: /nowhere/libcublas.so.13", library.why);
}

TEST(Cublas, lacks_functions_by_name) {
  const CublasLibrary none = open_cublas("libm.so.6");
  EXPECT_EQ(none.api, nullptr);
  EXPECT_EQ(none.why, "libm.so.6 has no cublasCreate_v2");
  const CublasLibrary most = open_cublas(beside_this_program("libcublas-without-sgemm.so"));
  EXPECT_EQ(most.api, nullptr);
  expect_in(" has no cublasSgemm_v2", most.why);
}

TEST(Cublas, is_what_a_machine_has) {
  const CublasLibrary library = open_cublas();
  if (library.api == nullptr) {
    expect_in("cannot open cuBLAS: libcublas.so.13: ", library.why);
    GTEST_SKIP() << library.why;
  }
  expect_in(".", library.version);
  EXPECT_EQ(library.api->status_name(cublas_success), "CUBLAS_STATUS_SUCCESS");
}

}  // namespace
}  // namespace train::gpu
