// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/nccl/nccl.hpp"
#include "device/cuda/backend.hpp"
#include "support/temporary_directory.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail::nccl {
namespace {

/// The path of a library made of fake_nccl.cpp; they are beside this program.
std::string fake(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename("libfake-nccl-" + name + ".so").string();
}

std::string last_call_of(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return "not loaded";
  const auto last_call = reinterpret_cast<const char* (*)()>(::dlsym(handle, "fake_nccl_last_call"));
  std::string text = last_call();
  ::dlclose(handle);
  return text;
}

/// Expects that `path` is refused, with all `parts` in the reason.
void expect_refused(const std::string& path, const std::vector<std::string>& parts) {
  const Library found = open_library(path);
  EXPECT_EQ(found.api, nullptr);
  for (const std::string& part : parts) {
    EXPECT_NE(found.why.find(part), std::string::npos) << '"' << part << "\" is missing in: " << found.why;
  }
}

TEST(NcclLibrary, opens_the_file_that_is_named) {
  const Library found = open_library(fake("whole"));
  ASSERT_NE(found.api, nullptr) << found.why;
  EXPECT_EQ(found.why, "");
  EXPECT_EQ(found.path, fake("whole"));
  EXPECT_EQ(found.version, 22809);
  int version = 0;
  EXPECT_EQ(found.api->get_version(version), Result::success);
  EXPECT_EQ(version, 22809);
}

TEST(NcclLibrary, names_a_file_that_is_not_there) {
  expect_refused("/nowhere/libnccl.so.2", {"/nowhere/libnccl.so.2", "No such file"});
}

TEST(NcclLibrary, names_a_file_that_is_not_a_library) {
  const test::TemporaryDirectory directory;
  directory.write("libnccl.so.2",
                  "This is a text file that is long enough to contain the header of a library, but is not one.");
  const std::string path = (directory.path() / "libnccl.so.2").string();
  expect_refused(path, {path, "invalid ELF header"});
}

TEST(NcclLibrary, names_a_library_that_is_something_else) {
  expect_refused(fake("other"), {fake("other") + " has no ncclGetVersion"});
}

TEST(NcclLibrary, names_the_function_that_a_library_lacks) {
  expect_refused(fake("without-recv"), {fake("without-recv") + " has no ncclRecv"});
}

TEST(NcclLibrary, names_a_version_that_is_too_old_and_the_one_that_is_needed) {
  expect_refused(fake("old"), {fake("old") + " is NCCL 2.26.5; lockstep needs 2.27.3 or newer"});
  expect_refused(fake("ancient"), {fake("ancient") + " is NCCL 2.8.4; lockstep needs 2.27.3 or newer"});
}

TEST(NcclLibrary, keeps_its_names_to_itself) {
  const void* const before = ::dlsym(RTLD_DEFAULT, "ncclGetVersion");
  ASSERT_NE(open_library(fake("whole")).api, nullptr);
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, "ncclGetVersion"), before);
}

TEST(NcclLibrary, prefers_an_nccl_that_is_loaded_already) {
  EXPECT_EXIT(
      {
        ::dlopen(fake("whole").c_str(), RTLD_NOW | RTLD_GLOBAL);
        const Library found = open_library("");
        std::_Exit(found.api != nullptr && found.path == fake("whole") ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(NcclLibrary, is_found_by_the_loader_if_none_is_named_or_loaded) {
  EXPECT_EXIT(
      {
        // its name in there is libnccl.so.2: the loader finds it without a search
        ::dlopen(fake("so-2").c_str(), RTLD_NOW | RTLD_LOCAL);
        const Library found = open_library("");
        std::_Exit(found.api != nullptr && found.path == fake("so-2") ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(NcclLibrary, is_the_one_that_the_environment_names_even_if_another_is_loaded) {
  EXPECT_EXIT(
      {
        ::dlopen(fake("old").c_str(), RTLD_NOW | RTLD_GLOBAL);
        ::setenv("LOCKSTEP_NCCL", fake("whole").c_str(), 1);
        cuda::Backend backend({});
        const Library& found = backend.nccl();
        std::_Exit(found.api != nullptr && found.path == fake("whole") ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        ::dlopen(fake("whole").c_str(), RTLD_NOW | RTLD_GLOBAL);
        ::setenv("LOCKSTEP_NCCL", "/nowhere/libnccl.so.2", 1);
        cuda::Backend backend({});
        const Library& found = backend.nccl();
        std::_Exit(found.api == nullptr && found.why.find("/nowhere/libnccl.so.2") != std::string::npos ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

/// The path or error of the NCCL of a process in which `option` and `variable` name files.
std::string found_by(const std::string& option, const std::string& variable) {
  ::setenv("LOCKSTEP_NCCL", variable.c_str(), 1);
  if (!name_library(option)) return "looked for already";
  cuda::Backend backend({});
  const Library& found = backend.nccl();
  return found.api != nullptr ? found.path : found.why;
}

TEST(NcclLibrary, named_by_the_option_has_precedence_over_the_environment) {
  EXPECT_EXIT(std::_Exit(found_by(fake("whole"), fake("old")) == fake("whole") ? 0 : 1), testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(std::_Exit(found_by("", fake("whole")) == fake("whole") ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(NcclLibrary, that_cannot_be_opened_is_refused_with_the_setting_and_the_rule) {
  const auto print = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::_Exit(0);
  };
  EXPECT_EXIT(print(found_by("/nowhere/libnccl.so.2", fake("whole"))), testing::ExitedWithCode(0),
              "EnvironmentOptions::nccl_library is \"/nowhere/libnccl.so.2\", but must name a file with NCCL 2.27.3 or "
              "newer: cannot open NCCL: .*No such file");
  EXPECT_EXIT(print(found_by("", fake("old"))), testing::ExitedWithCode(0),
              "LOCKSTEP_NCCL is .*, but must name a file with NCCL 2.27.3 or newer: .* is NCCL 2.26.5");
}

TEST(NcclLibrary, cannot_be_named_after_it_was_opened) {
  EXPECT_EXIT(
      {
        const std::string first = found_by(fake("whole"), "");
        std::_Exit(first == fake("whole") && found_by(fake("so-2"), "") == "looked for already" ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(NcclTable, maps_each_type_and_op_to_nccls_number) {
  const Library found = open_library(fake("whole"));
  ASSERT_NE(found.api, nullptr) << found.why;
  const std::vector<std::pair<DType, ncclDataType_t>> types{
      {DType::f16, ncclFloat16}, {DType::bf16, ncclBfloat16}, {DType::f32, ncclFloat32},   {DType::f64, ncclFloat64},
      {DType::i8, ncclInt8},     {DType::i32, ncclInt32},     {DType::i64, ncclInt64},     {DType::u8, ncclUint8},
      {DType::u32, ncclUint32},  {DType::u64, ncclUint64},    {DType::boolean, ncclUint8},
  };
  EXPECT_EQ(types.size() + 2, static_cast<std::size_t>(dtype_count));
  for (const auto& [dtype, number] : types) {
    EXPECT_TRUE(is_reducible(dtype));
    EXPECT_EQ(found.api->all_gather(nullptr, nullptr, 3, dtype, nullptr, nullptr), Result::in_progress);
    EXPECT_EQ(last_call_of(found.path), "AllGather of 3 of type " + std::to_string(number)) << to_string(dtype);
  }
  const std::vector<std::pair<RedOp, ncclRedOp_t>> ops{
      {RedOp::sum, ncclSum}, {RedOp::prod, ncclProd}, {RedOp::max, ncclMax}, {RedOp::min, ncclMin}};
  for (const auto& [op, number] : ops) {
    EXPECT_EQ(found.api->all_reduce(nullptr, nullptr, 3, DType::i8, op, nullptr, nullptr), Result::in_progress);
    EXPECT_EQ(last_call_of(found.path), "AllReduce of 3 of type 0, " + std::to_string(number));
  }
}

TEST(NcclTable, refuses_16_bit_integers_without_calling_nccl) {
  const Library found = open_library(fake("whole"));
  ASSERT_NE(found.api, nullptr) << found.why;
  Api& api = *found.api;
  ASSERT_EQ(api.group_start(), Result::in_progress);
  for (const DType dtype : {DType::i16, DType::u16}) {
    EXPECT_FALSE(is_reducible(dtype));
    const Result wrong = Result::invalid_argument;
    EXPECT_EQ(api.all_reduce(nullptr, nullptr, 1, dtype, RedOp::sum, nullptr, nullptr), wrong);
    EXPECT_EQ(api.reduce(nullptr, nullptr, 1, dtype, RedOp::sum, 0, nullptr, nullptr), wrong);
    EXPECT_EQ(api.broadcast(nullptr, nullptr, 1, dtype, 0, nullptr, nullptr), wrong);
    EXPECT_EQ(api.reduce_scatter(nullptr, nullptr, 1, dtype, RedOp::sum, nullptr, nullptr), wrong);
    EXPECT_EQ(api.all_gather(nullptr, nullptr, 1, dtype, nullptr, nullptr), wrong);
    EXPECT_EQ(api.send(nullptr, 1, dtype, 0, nullptr, nullptr), wrong);
    EXPECT_EQ(api.recv(nullptr, 1, dtype, 0, nullptr, nullptr), wrong);
  }
  EXPECT_EQ(last_call_of(found.path), "GroupStart");
}

TEST(NcclTable, calls_the_function_of_the_same_name) {
  const Library found = open_library(fake("whole"));
  ASSERT_NE(found.api, nullptr) << found.why;
  Api& api = *found.api;
  const auto expect_call = [&](Result result, const std::string& call) {
    EXPECT_EQ(result, Result::in_progress);
    EXPECT_EQ(last_call_of(found.path), call);
  };
  const DType f32 = DType::f32;
  expect_call(api.group_start(), "GroupStart");
  expect_call(api.all_reduce(nullptr, nullptr, 5, f32, RedOp::max, nullptr, nullptr), "AllReduce of 5 of type 7, 2");
  expect_call(api.reduce(nullptr, nullptr, 5, f32, RedOp::prod, 6, nullptr, nullptr), "Reduce of 5 of type 7, 1, 6");
  expect_call(api.broadcast(nullptr, nullptr, 5, f32, 6, nullptr, nullptr), "Broadcast of 5 of type 7, 6");
  expect_call(api.reduce_scatter(nullptr, nullptr, 5, f32, RedOp::min, nullptr, nullptr),
              "ReduceScatter of 5 of type 7, 3");
  expect_call(api.all_gather(nullptr, nullptr, 5, f32, nullptr, nullptr), "AllGather of 5 of type 7");
  expect_call(api.send(nullptr, 5, f32, 6, nullptr, nullptr), "Send of 5 of type 7, 6");
  expect_call(api.recv(nullptr, 5, f32, 6, nullptr, nullptr), "Recv of 5 of type 7, 6");
  expect_call(api.group_end(), "GroupEnd");
  expect_call(api.comm_finalize(nullptr), "CommFinalize");
  expect_call(api.comm_destroy(nullptr), "CommDestroy");
  expect_call(api.comm_abort(nullptr), "CommAbort");
  EXPECT_EQ(api.error_string(Result::remote_error), "an error string");
  EXPECT_EQ(api.last_error(nullptr), "");
}

TEST(NcclTable, makes_communicators_that_do_not_block_and_are_written_once) {
  const Library found = open_library(fake("whole"));
  ASSERT_NE(found.api, nullptr) << found.why;
  UniqueId id;
  ASSERT_EQ(found.api->get_unique_id(id), Result::success);
  Comm asked = nullptr;
  EXPECT_EQ(found.api->comm_init_rank(asked, 4, id, 3), Result::in_progress);
  EXPECT_EQ(last_call_of(found.path), "rank 3 of 4, id ends with 127, blocking 0");
  ASSERT_NE(asked, nullptr);
  EXPECT_EQ(found.api->last_error(asked), "a last error");
  const Comm comm = std::exchange(asked, nullptr);
  Result error = Result::success;
  EXPECT_EQ(found.api->comm_get_async_error(comm, error), Result::success);
  EXPECT_EQ(error, Result::remote_error);
  EXPECT_EQ(asked, nullptr);  // NCCL's late write does not go to the caller's variable
}

TEST(Nccl, of_this_machine_is_loaded) {
  const Library found = open_library("libnccl.so.2");
  if (found.why.starts_with("cannot open NCCL")) GTEST_SKIP() << found.why;
  ASSERT_NE(found.api, nullptr) << found.why;
  EXPECT_EQ(found.version / 10000, NCCL_MAJOR);
  EXPECT_NE(found.path.find("libnccl.so"), std::string::npos) << found.path;
  EXPECT_TRUE(found.api->error_string(Result::invalid_argument).starts_with("invalid argument"));
  float value = 1;
  EXPECT_EQ(found.api->all_reduce(&value, &value, 1, DType::f32, RedOp::sum, nullptr, nullptr),
            Result::invalid_argument);
  EXPECT_NE(found.api->last_error(nullptr), "");
}

}  // namespace
}  // namespace lockstep::detail::nccl
