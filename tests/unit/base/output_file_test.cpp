// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/output_file.hpp"

#include "support/function_ref.hpp"
#include "support/size_limit.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

using test::files_in;
using test::TemporaryDirectory;
using Names = std::vector<std::string>;

std::string error_of(test::FunctionRef<void()> action) {
  try {
    action();
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

void replace(const std::string& path, const std::string& text, Durability durability = Durability::none) {
  FileReplacement file(path);
  file.write(text);
  file.finish(durability);
}

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0);
  return status.st_mode;
}

class OutputFiles : public testing::Test {
 protected:
  [[nodiscard]] std::string path_of(const std::string& name) const { return (directory_.path() / name).string(); }
  void link(const std::string& to, const std::string& name) const {
    std::filesystem::create_symlink(path_of(to), path_of(name));
  }
  TemporaryDirectory directory_;
};

TEST_F(OutputFiles, are_replaced_as_a_whole) {
  directory_.write("x", "old");
  {
    FileReplacement file(path_of("x"));
    file.write("ne");
    EXPECT_EQ(directory_.read("x"), "old");
    file.write("w");
    file.finish(Durability::disk);
  }
  EXPECT_EQ(directory_.read("x"), "new");
  EXPECT_EQ(files_in(directory_.path()), Names{"x"});
}

TEST_F(OutputFiles, are_unchanged_if_the_replacement_is_not_finished) {
  directory_.write("x", "old");
  { FileReplacement(path_of("x")).write("new"); }
  EXPECT_EQ(directory_.read("x"), "old");
  EXPECT_EQ(files_in(directory_.path()), Names{"x"});
}

TEST_F(OutputFiles, have_the_mode_of_the_umask) {
  const mode_t former = ::umask(027);
  replace(path_of("a"), "");
  static_cast<void>(OutputFile::create(path_of("b")));
  static_cast<void>(OutputFile::append(path_of("c")));
  ::umask(former);
  for (const char* const name : {"a", "b", "c"}) EXPECT_EQ(mode_of(path_of(name)) & 0777U, 0640U) << name;
}

TEST_F(OutputFiles, that_are_created_do_not_follow_links) {
  directory_.write("victim", "precious");
  link("victim", "x");
  OutputFile::create(path_of("x")).write("log");
  EXPECT_EQ(directory_.read("victim"), "precious");
  EXPECT_EQ(directory_.read("x"), "log");
  EXPECT_TRUE(S_ISREG(mode_of(path_of("x"))));
  std::filesystem::create_hard_link(path_of("victim"), path_of("y"));
  OutputFile::create(path_of("y")).write("log");
  EXPECT_EQ(directory_.read("victim"), "precious");
}

TEST_F(OutputFiles, that_are_replaced_do_not_follow_links) {
  // the names of the parts can be guessed, so another user may have made links of them
  std::string part;
  {
    const FileReplacement file(path_of("x"));
    part = files_in(directory_.path()).at(0);
  }
  const std::size_t dash = part.rfind('-') + 1;
  const int number = std::stoi(part.substr(dash));
  directory_.write("victim", "precious");
  link("victim", "x");
  for (int k = 1; k <= 3; ++k) link("victim", part.substr(0, dash) + std::to_string(number + k));
  replace(path_of("x"), "new");
  EXPECT_EQ(directory_.read("victim"), "precious");
  EXPECT_EQ(directory_.read("x"), "new");
  EXPECT_TRUE(S_ISREG(mode_of(path_of("x"))));
}

TEST_F(OutputFiles, that_grow_refuse_links) {
  OutputFile::append(path_of("x")).write("one ");
  OutputFile::append(path_of("x")).write("two");
  EXPECT_EQ(directory_.read("x"), "one two");
  directory_.write("victim", "precious");
  link("victim", "link");
  link("nothing", "dangling");
  for (const char* const name : {"link", "dangling"}) {
    EXPECT_EQ(error_of([&] { static_cast<void>(OutputFile::append(path_of(name))); }),
              "it is a symbolic link, and links are not followed");
    EXPECT_EQ(error_of([&] { require_regular_file(path_of(name)); }),
              "it is a symbolic link, and links are not followed");
  }
  EXPECT_EQ(directory_.read("victim"), "precious");
  EXPECT_EQ(files_in(directory_.path()), (Names{"dangling", "link", "victim", "x"}));
}

TEST_F(OutputFiles, are_regular_files) {
  ASSERT_EQ(::mkfifo(path_of("pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(path_of("folder"));
  for (const std::string& path : {path_of("pipe"), std::string("/dev/null"), std::string("/dev/full")}) {
    EXPECT_EQ(error_of([&] { static_cast<void>(OutputFile::append(path)); }), "it is not a regular file") << path;
    EXPECT_EQ(error_of([&] { FileReplacement{path}; }), "it is not a regular file") << path;
    EXPECT_EQ(error_of([&] { require_regular_file(path); }), "it is not a regular file") << path;
  }
  for (const auto& action : std::vector<void (*)(const std::string&)>{
           [](const std::string& path) { static_cast<void>(OutputFile::create(path)); },
           [](const std::string& path) { static_cast<void>(OutputFile::append(path)); },
           [](const std::string& path) { FileReplacement{path}; }, require_regular_file})
    EXPECT_EQ(error_of([&] { action(path_of("folder")); }), "Is a directory");
  EXPECT_EQ(files_in(directory_.path()), (Names{"folder", "pipe"}));
}

TEST_F(OutputFiles, report_what_failed) {
  const std::string path = path_of("missing/x");
  EXPECT_EQ(error_of([&] { static_cast<void>(OutputFile::create(path)); }), "No such file or directory");
  EXPECT_EQ(error_of([&] { static_cast<void>(OutputFile::append(path)); }), "No such file or directory");
  EXPECT_EQ(error_of([&] { FileReplacement{path}; }), "No such file or directory");
  try {
    FileReplacement{path};
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_STREQ(error.action(), "open for writing");
  }
}

TEST_F(OutputFiles, report_that_permission_is_missing) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  std::filesystem::create_directory(path_of("locked"));
  ::chmod(path_of("locked").c_str(), 0500);
  for (const auto& action : std::vector<void (*)(const std::string&)>{
           [](const std::string& path) { static_cast<void>(OutputFile::create(path)); },
           [](const std::string& path) { static_cast<void>(OutputFile::append(path)); },
           [](const std::string& path) { FileReplacement{path}; }})
    EXPECT_EQ(error_of([&] { action(path_of("locked/x")); }), "Permission denied");
}

TEST_F(OutputFiles, without_space_keep_the_old_content) {
  directory_.write("x", "old");
  const std::string text(5000, 'x');
  std::optional<test::SizeLimit> limit(1000);
  EXPECT_EQ(error_of([&] { replace(path_of("x"), text); }), "File too large");
  // the system takes the first 1000 bytes, then none
  EXPECT_EQ(error_of([&] { OutputFile::create(path_of("log")).write(text); }), "File too large");
  limit.reset();
  EXPECT_EQ(directory_.read("x"), "old");
  EXPECT_EQ(directory_.read("log"), text.substr(0, 1000));
  EXPECT_EQ(files_in(directory_.path()), (Names{"log", "x"}));
}

TEST_F(OutputFiles, move_their_descriptor) {
  OutputFile first = OutputFile::create(path_of("x"));
  OutputFile second = std::move(first);
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move)
  second.write("a");
  first = std::move(second);
  first.write("b");
  first.close();
  EXPECT_FALSE(first.is_open());
  EXPECT_EQ(directory_.read("x"), "ab");
}

}  // namespace
}  // namespace lockstep::detail
