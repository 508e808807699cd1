// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "run/progress.hpp"

#include "apps/options/terminal.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace run {
namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Whether TERM names a terminal that knows escape sequences.
bool knows_escapes() {
  const char* const term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb";
}

std::size_t width_of_terminal() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 79;
  return std::size_t{size.ws_col} - 1U;
}

std::string elapsed(double seconds) {
  const auto whole = static_cast<long>(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

Progress::Progress(ProgressMode mode, std::filesystem::path file, int ranks, double every_s)
    : mode_(mode),
      file_(std::move(file)),
      ranks_(ranks),
      every_(mode == ProgressMode::live ? 0.5 : every_s),
      start_(now_s()),
      next_(std::chrono::steady_clock::now()) {
  if (mode_ == ProgressMode::lines) next_ += std::chrono::duration_cast<std::chrono::nanoseconds>(every_);
}

void Progress::update() {
  const auto now = std::chrono::steady_clock::now();
  if (mode_ == ProgressMode::never || now < next_) return;
  next_ = now + std::chrono::duration_cast<std::chrono::nanoseconds>(every_);
  const std::vector<RankMetrics> metrics = read_metrics(file_, ranks_, start_);
  double newest = 0;
  for (const RankMetrics& rank : metrics) newest = std::max(newest, rank.time);
  if (newest <= shown_) return;
  shown_ = newest;
  const Summary summary = summarize(metrics);
  if (is_live()) {
    erase();
    status_ = status(summary);
    draw();
    return;
  }
  std::string line = "lockstep-run: " + elapsed(summary.elapsed_s);
  if (summary.progress >= 0) line += fmt::format(", {:.0f} %", 100 * summary.progress);
  for (const std::string& part : {summary.values, summary.exchange})
    if (!part.empty()) line += ", " + part;
  write_all(STDERR_FILENO, line + "\n");
}

std::string Progress::status(const Summary& summary) const {
  const std::size_t width = width_of_terminal();
  const std::string time = elapsed(summary.elapsed_s);
  std::string text;
  if (summary.progress >= 0) {
    const std::size_t cells = std::clamp<std::size_t>(width, 30, 70) - 20;
    const auto full = static_cast<std::size_t>(summary.progress * static_cast<double>(cells));
    const bool has_colors = options::permits_colors() && knows_escapes();
    const std::string done = has_colors ? "\x1b[32m" + std::string(full, '#') + "\x1b[0m" : std::string(full, '#');
    text = fmt::format("[{}{}] {:.0f} %  {}\n", done, std::string(cells - full, '-'), 100 * summary.progress, time);
  } else {
    text = time + "\n";
  }
  for (const std::string& part : {summary.values, summary.exchange})
    if (!part.empty()) text += part.substr(0, width) + "\n";
  return text;
}

void Progress::write_output(int fd, std::string_view output) {
  if (output.empty()) return;
  erase();
  write_all(fd, output);
  at_line_start_ = output.back() == '\n';
  draw();
}

void Progress::draw() {
  // a line of the program that has not ended would be continued in the status area
  if (status_.empty() || !at_line_start_ || !is_live()) return;
  write_all(STDERR_FILENO, status_);
  drawn_lines_ = static_cast<int>(std::count(status_.begin(), status_.end(), '\n'));
}

void Progress::erase() {
  if (drawn_lines_ != 0) write_all(STDERR_FILENO, fmt::format("\x1b[{}A\r\x1b[J", drawn_lines_));
  drawn_lines_ = 0;
}

ProgressMode resolve(ProgressMode mode) {
  if (mode != ProgressMode::automatic) return mode;
  return isatty(STDERR_FILENO) == 1 && knows_escapes() ? ProgressMode::live : ProgressMode::lines;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, 1000);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace run
