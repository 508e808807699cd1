// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Deadlines while a debugger is attached to a rank.

#include "base/process.hpp"
#include "support/errors.hpp"
#include "unit/collectives/scripted.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace lockstep::detail {
namespace {

using std::chrono::milliseconds;
using test::error_of;
using test::expect_all;

/// A process to which a tracer is attached, as a debugger would be; none if the system forbids it.
class TracedProcess {
 public:
  TracedProcess() : process_(fork()) {
    if (process_ == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
      pause();
      _exit(0);
    }
  }
  TracedProcess(const TracedProcess&) = delete;
  TracedProcess& operator=(const TracedProcess&) = delete;
  ~TracedProcess() { end(); }

  [[nodiscard]] pid_t number() const noexcept { return process_; }
  [[nodiscard]] bool becomes_traced() const {
    for (int i = 0; i < 60'000; ++i) {
      if (is_traced(process_)) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_;
};

TEST(EngineDeadline, is_suspended_while_a_debugger_is_attached_to_a_rank) {
  TracedProcess other;
  if (!other.becomes_traced()) GTEST_SKIP() << "ptrace is not permitted";
  const auto both = engines(2, {.fail_ms = 2000});
  both[1]->transport().node_group()->own_control_block().process.value.store(
      static_cast<std::uint64_t>(other.number()));
  const auto operation = scripted();
  both[0]->post(operation);
  EXPECT_FALSE(both[0]->wait(*operation, std::chrono::steady_clock::now() + milliseconds(4500)));
  other.end();
  expect_all(error_of([&] { both[0]->wait(*operation); }), {"timed out after 2 s waiting for rank 1"});
}

}  // namespace
}  // namespace lockstep::detail
