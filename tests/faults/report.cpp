// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <stdexcept>

namespace faults {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    if (static_cast<unsigned char>(character) < 0x20) {
      result += ' ';
    } else {
      result += character;
    }
  }
  return result + '"';
}

}  // namespace

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void Report::open(const Settings& settings) {
  folder_ = settings.folder;
  const std::string file = folder_ / ("rank." + std::to_string(settings.rank));
  file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file_ < 0) throw std::runtime_error("cannot open " + file);
}

void Report::write(const std::string& text) const {
  const std::string line = text + "}\n";
  // one system call, so that a rank that dies leaves whole lines
  if (::write(file_, line.data(), line.size()) < 0) std::perror("report");
}

void Report::line(std::string_view at, std::string_view text) const {
  std::string line = "{\"at\":" + quoted(at) + ",\"t\":" + std::to_string(now());
  if (!text.empty()) line += ",\"text\":" + quoted(text);
  write(line);
}

void Report::error(std::string_view at, const lockstep::Error& error, double begin) const {
  write("{\"at\":" + quoted(at) + ",\"t\":" + std::to_string(now()) + ",\"begin\":" + std::to_string(begin) +
        ",\"code\":" + quoted(to_string(error.code())) + ",\"rank\":" + std::to_string(error.rank()) +
        ",\"text\":" + quoted(error.what()));
}

void Report::shortage(double begin) const {
  write("{\"at\":\"error\",\"t\":" + std::to_string(now()) + ",\"begin\":" + std::to_string(begin) +
        ",\"code\":\"bad_alloc\",\"rank\":-1,\"text\":\"out of memory\"");
}

void Report::event() const {
  std::ofstream(folder_ / "event.part") << std::to_string(now()) << ' ' << getpid() << '\n';
  std::filesystem::rename(folder_ / "event.part", folder_ / "event");
  line("event");
}

double Report::event_time() const {
  double time = 0;
  std::ifstream(folder_ / "event") >> time;
  return time;
}

}  // namespace faults
