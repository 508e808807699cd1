// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/progress.hpp"

#include "apps/options/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace train {
namespace {

/// Columns of the terminal of standard output; 0 if there is none. The pseudo-terminal that Open MPI gives to a rank
/// has no columns.
int columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// The process id of the parent of process `pid`; 0 if it cannot be read.
int parent_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  }
  return 0;
}

/// Whether a launcher among the ancestors of this process, at most two levels above its parent, writes to a terminal.
bool launcher_has_terminal() {
  constexpr std::array<std::string_view, 6> launchers{"mpirun",  "mpiexec",       "orterun",
                                                      "prterun", "mpiexec.hydra", "srun"};
  int pid = getppid();
  for (int level = 0; level < 3 && pid > 1; ++level, pid = parent_of(pid)) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
    if (std::none_of(launchers.begin(), launchers.end(), [&](std::string_view each) { return name.starts_with(each); }))
      continue;
    std::error_code error;
    const std::string output = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", pid), error);
    return output.starts_with("/dev/pts/") || output.starts_with("/dev/tty");
  }
  return false;
}

}  // namespace

ProgressStyle style_of_output() {
  const char* const terminal = std::getenv("TERM");
  if (terminal == nullptr || *terminal == '\0' || std::string_view(terminal) == "dumb") return ProgressStyle::lines;
  if (columns() == 0 && !launcher_has_terminal()) return ProgressStyle::lines;
  return options::permits_colors() ? ProgressStyle::bar_colour : ProgressStyle::bar;
}

Progress::Progress(ProgressStyle style) : style_(style), start_(Clock::now()), last_(start_) {}

Progress::~Progress() { clear(); }

bool Progress::is_due() const {
  using std::chrono::milliseconds;
  const auto now = Clock::now();
  if (is_bar()) return now - last_ >= milliseconds(100);
  const auto interval = std::chrono::duration_cast<milliseconds>(now - start_) / 50;
  return now - last_ >= std::clamp(interval, milliseconds(1000), milliseconds(60000));
}

void Progress::draw(std::int64_t step, std::int64_t steps, const std::string& text) {
  last_ = Clock::now();
  const int width = columns() != 0 ? columns() : 80;
  const int cells = std::clamp(width - static_cast<int>(text.size()) - 2, 0, 40);  // a space, and the last column
  const auto done = static_cast<int>(steps > 0 ? cells * step / steps : 0);
  const bool has_colour = style_ == ProgressStyle::bar_colour;
  fmt::print("\r{}{:#>{}}{}{:->{}} {}\x1b[K", has_colour ? "\x1b[32m" : "", "", done, has_colour ? "\x1b[0m" : "", "",
             cells - done, text.substr(0, static_cast<std::size_t>(std::max(width - 2, 1))));
  is_drawn_ = true;
  std::fflush(stdout);
}

void Progress::print(const std::string& text) {
  last_ = Clock::now();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Progress::clear() {
  if (!is_drawn_) return;
  is_drawn_ = false;
  std::fputs("\r\x1b[K", stdout);
  std::fflush(stdout);
}

}  // namespace train
