// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/process.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

namespace lockstep::test {
namespace {

using detail::ProcessId;
using detail::ProcessWatch;

/// A child process that runs `body` when it is told to, and does not return from it.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    std::array<int, 2> ready{};
    if (pipe(go_.data()) != 0 || pipe(ready.data()) != 0) return;
    number_ = fork();
    if (number_ == 0) {
      const ProcessId own = detail::id_of_this_process();
      char byte = 0;
      if (write(ready[1], &own, sizeof(own)) != sizeof(own) || read(go_[0], &byte, 1) != 1) _exit(99);
      body();
      _exit(98);
    }
    EXPECT_EQ(read(ready[0], &id_, sizeof(id_)), static_cast<ssize_t>(sizeof(id_)));
    close(ready[0]);
    close(ready[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (number_ > 0) kill(number_, SIGKILL);
    reap();
    close(go_[0]);
    close(go_[1]);
  }
  void go() const { EXPECT_EQ(write(go_[1], "", 1), 1); }
  /// Whether the process stops.
  [[nodiscard]] bool stops() const {
    int status = 0;
    return waitpid(number_, &status, WUNTRACED) == number_ && WIFSTOPPED(status);
  }
  void reap() {
    if (number_ > 0) waitpid(number_, nullptr, 0);
    number_ = 0;
  }
  [[nodiscard]] const ProcessId& id() const { return id_; }

 private:
  pid_t number_ = 0;
  std::array<int, 2> go_{};
  ProcessId id_;
};

[[nodiscard]] bool ends_soon(const ProcessWatch& watch) {
  for (int i = 0; i < 24'000 && !watch.has_ended(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return watch.has_ended();
}

/// How the end of a process is described before its parent has waited for it.
std::string end_of(const std::function<void()>& body) {
  const Child child(body);
  const auto watch = ProcessWatch::of(child.id());
  if (watch == nullptr) return "not watched";
  EXPECT_FALSE(watch->has_ended());
  child.go();
  EXPECT_TRUE(ends_soon(*watch));
  return watch->end_text();
}

TEST(ProcessWatch, notices_the_end_of_a_process_that_its_parent_has_not_waited_for) {
  EXPECT_EQ(end_of([] { _exit(0); }), "has exited");
  EXPECT_EQ(end_of([] { _exit(3); }), "has exited with code 3");
  EXPECT_EQ(end_of([] { raise(SIGKILL); }), "has died of signal 9 (Killed)");
}

TEST(ProcessWatch, notices_the_end_of_a_process_that_its_parent_has_waited_for) {
  Child child([] { _exit(3); });
  const auto watch = ProcessWatch::of(child.id());
  ASSERT_NE(watch, nullptr);
  child.go();
  child.reap();
  EXPECT_TRUE(watch->has_ended());
  const std::string text = watch->end_text();  // kernels before 6.15 do not say how it has ended
  EXPECT_TRUE(text == "has exited with code 3" || text == "has died") << text;
}

TEST(ProcessWatch, notices_a_process_that_has_ended_before) {
  Child child([] { _exit(0); });
  child.go();
  child.reap();
  const auto watch = ProcessWatch::of(child.id());
  ASSERT_NE(watch, nullptr);
  EXPECT_TRUE(watch->has_ended());
  EXPECT_EQ(watch->end_text(), "has died");
}

TEST(ProcessWatch, works_without_file_descriptors) {
  const Child child([] { raise(SIGKILL); });
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{4, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const ProcessWatch watch(child.id());
  EXPECT_FALSE(watch.has_ended());  // not even a file of /proc can be read
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_FALSE(watch.has_ended());
  child.go();
  EXPECT_TRUE(ends_soon(watch));
  EXPECT_EQ(watch.end_text(), "has died of signal 9 (Killed)");
}

TEST(ProcessWatch, knows_a_stopped_process_is_there) {
  const Child child([] { raise(SIGSTOP); });
  const auto watch = ProcessWatch::of(child.id());
  ASSERT_NE(watch, nullptr);
  child.go();
  ASSERT_TRUE(child.stops());
  EXPECT_FALSE(watch->has_ended());
}

TEST(ProcessWatch, tells_a_process_from_a_later_one_with_its_number) {
  ProcessId id = detail::id_of_this_process();
  EXPECT_FALSE(ProcessWatch(id).has_ended());
  --id.start_time;
  EXPECT_TRUE(ProcessWatch(id).has_ended());
}

TEST(ProcessWatch, does_not_watch_processes_of_another_pid_namespace) {
  ProcessId id = detail::id_of_this_process();
  ++id.space;
  EXPECT_EQ(ProcessWatch::of(id), nullptr);
  EXPECT_EQ(ProcessWatch::of(ProcessId()), nullptr);
}

}  // namespace
}  // namespace lockstep::test
