// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_mailbox.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr auto between_looks = std::chrono::milliseconds(1);  // of the files of other processes
constexpr auto long_ago = std::chrono::minutes(10);
constexpr std::string_view prefix = "lockstep-fake-nccl-";

struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  std::uint64_t changes = 0;  // guarded by mutex
};

Bell& bell() {
  static Bell the_bell;
  return the_bell;
}

fs::path parent() {
  if (const char* const wanted = std::getenv("TMPDIR"); wanted != nullptr && *wanted != '\0') return wanted;
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

// "lockstep-fake-nccl-<pid>-XXXXXX" of a process that has ended
bool is_left_behind(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  if (!name.starts_with(prefix)) return false;
  std::error_code error;
  const auto age = fs::file_time_type::clock::now() - entry.last_write_time(error);
  if (error || age < long_ago) return false;
  const int owner = std::atoi(name.c_str() + prefix.size());
  return owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH;
}

bool write_whole(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

fs::path FakeMailbox::make_directory() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent(), ignored)) {
    if (is_left_behind(entry)) fs::remove_all(entry.path(), ignored);
  }
  std::string path = parent() / (std::string(prefix) + std::to_string(::getpid()) + "-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) {
    throw fs::filesystem_error("a fake NCCL's directory", path, std::error_code(errno, std::generic_category()));
  }
  return path;
}

bool FakeMailbox::post(const std::vector<std::string>& names, std::span<const std::byte> message) const {
  if (names.empty()) return true;
  static std::atomic<std::uint64_t> next{0};
  const fs::path draft = directory_ / ("draft-" + std::to_string(::getpid()) + "-" + std::to_string(next++));
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool all_posted = write_whole(file, message);
  ::close(file);
  for (const std::string& name : names) {
    all_posted = all_posted && ::link(draft.c_str(), (directory_ / name).c_str()) == 0;
  }
  ::unlink(draft.c_str());
  ring();
  return all_posted;
}

std::optional<Bytes> FakeMailbox::read(const std::string& name) const {
  const int file = ::open((directory_ / name).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat status = {};
  std::optional<Bytes> message;
  if (::fstat(file, &status) == 0) {
    message.emplace(static_cast<std::size_t>(status.st_size));
    std::size_t done = 0;
    while (done < message->size()) {
      const ssize_t got = ::read(file, message->data() + done, message->size() - done);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    message->resize(done);
  }
  ::close(file);
  return message;
}

void FakeMailbox::discard(const std::string& name) const {
  ::unlink((directory_ / name).c_str());
  ring();
}

std::size_t FakeMailbox::count(const std::string& beginning) const {
  std::size_t found = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory_, ignored)) {
    found += entry.path().filename().string().starts_with(beginning) ? 1u : 0u;
  }
  return found;
}

bool FakeMailbox::has(const std::string& name) const { return ::access((directory_ / name).c_str(), F_OK) == 0; }

void FakeMailbox::remove() const {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
  ring();
}

std::uint64_t FakeMailbox::changes() {
  const std::scoped_lock lock(bell().mutex);
  return bell().changes;
}

void FakeMailbox::wait_for_change(std::uint64_t seen) {
  std::unique_lock lock(bell().mutex);
  bell().rung.wait_for(lock, between_looks, [&] { return bell().changes != seen; });
}

void FakeMailbox::ring() {
  const std::scoped_lock lock(bell().mutex);
  ++bell().changes;
  bell().rung.notify_all();
}

}  // namespace lockstep::test
