// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Waits for descriptors and for signals. A descriptor that another thread of the run makes ready is noticed when all
// threads wait. If time can jump, it does: a thread that waits for another process must be the only one of its run that
// waits, else the deadlines of the others pass before the process can answer.

#include "virtual_time/real.hpp"
#include "virtual_time/refuse.hpp"
#include "virtual_time/shortages.hpp"
#include "virtual_time/times.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

using namespace lockstep::virtual_time::detail;

namespace {

VIRTUAL_TIME_REAL(poll);
VIRTUAL_TIME_REAL(ppoll);
VIRTUAL_TIME_REAL(select);
VIRTUAL_TIME_REAL(pselect);
VIRTUAL_TIME_REAL(epoll_wait);
VIRTUAL_TIME_REAL(read);
VIRTUAL_TIME_REAL(readv);
VIRTUAL_TIME_REAL(write);
VIRTUAL_TIME_REAL(writev);
VIRTUAL_TIME_REAL(recv);
VIRTUAL_TIME_REAL(recvfrom);
VIRTUAL_TIME_REAL(recvmsg);
VIRTUAL_TIME_REAL(send);
VIRTUAL_TIME_REAL(sendto);
VIRTUAL_TIME_REAL(sendmsg);
VIRTUAL_TIME_REAL(accept);
VIRTUAL_TIME_REAL(accept4);
VIRTUAL_TIME_REAL(sigwait);
VIRTUAL_TIME_REAL(sigwaitinfo);
VIRTUAL_TIME_REAL(sigtimedwait);

int wait_for(Scheduler& run, pollfd* descriptors, nfds_t count, Time deadline) {
  int ready = real_poll(descriptors, count, 0);
  if (ready != 0) return ready;
  run.block_on_descriptors(descriptors, count, deadline);
  ready = real_poll(descriptors, count, 0);
  return ready;
}

/// Waits until a call with `descriptor` does not block; not if the call would not block in any case.
void wait_for(int descriptor, short events, int flags = 0) {
  Scheduler* const run = active();
  if (run == nullptr || (flags & MSG_DONTWAIT) != 0) return;
  pollfd wanted{descriptor, events, 0};
  if (real_poll(&wanted, nfds_t{1}, 0) != 0 || (fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0) return;
  while (wait_for(*run, &wanted, 1, never) == 0) {}
}

Time deadline_after_ms(const Scheduler& run, int timeout_ms) {
  return timeout_ms < 0 ? never : run.now() + Time{timeout_ms} * 1'000'000;
}

int wait_for_sets(Scheduler& run, int count, std::array<fd_set*, 3> sets, Time deadline) {
  constexpr std::array<short, 3> events{POLLIN, POLLOUT, POLLPRI};
  std::array<pollfd, FD_SETSIZE> wanted;
  nfds_t used = 0;
  for (int descriptor = 0; descriptor < count; ++descriptor) {
    pollfd each{descriptor, 0, 0};
    for (std::size_t i = 0; i < sets.size(); ++i) {
      if (sets[i] != nullptr && FD_ISSET(descriptor, sets[i]))
        each.events = static_cast<short>(each.events | events[i]);
    }
    if (each.events != 0) wanted[used++] = each;
  }
  wait_for(run, wanted.data(), used, deadline);
  timeval none{};
  return real_select(count, sets[0], sets[1], sets[2], &none);
}

int wait_for_signal(Scheduler& run, const sigset_t* set, siginfo_t* info, Time deadline) {
  constexpr timespec none{};
  for (;;) {
    const int signal = real_sigtimedwait(set, info, &none);
    if (signal >= 0 || errno != EAGAIN) return signal;
    if (run.now() >= deadline) {
      errno = EAGAIN;
      return -1;
    }
    run.pause(Scheduler::Pause::yield, 0);
  }
}

/// Whether a write of `bytes` bytes fails for a shortage, with errno; else `bytes` is what can be written.
bool lacks_space(int descriptor, size_t& bytes) {
  if (lockstep::virtual_time::shortages == nullptr || active() == nullptr) return false;
  const int error = lockstep::virtual_time::shortages->at_write(descriptor, bytes);
  if (error != 0) errno = error;
  return error != 0;
}

/// Writes the first `bytes` bytes of `parts`, or fewer.
ssize_t write_first(int descriptor, const iovec* parts, int count, size_t bytes) {
  for (; count > 0; ++parts, --count) {
    if (parts->iov_len > 0) return real_write(descriptor, parts->iov_base, std::min(bytes, parts->iov_len));
  }
  return 0;
}

}  // namespace

namespace lockstep::virtual_time {
constinit const Shortages* shortages = nullptr;
}  // namespace lockstep::virtual_time

extern "C" {

int poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  Scheduler* const run = active();
  if (run == nullptr || timeout_ms == 0) return real_poll(descriptors, count, timeout_ms);
  return wait_for(*run, descriptors, count, deadline_after_ms(*run, timeout_ms));
}

int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  Scheduler* const run = active();
  if (run == nullptr) return real_ppoll(descriptors, count, timeout, mask);
  if (mask != nullptr) refuse("ppoll with a signal mask");
  return wait_for(*run, descriptors, count, deadline_after(*run, timeout));
}

int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* timeout) {
  Scheduler* const run = active();
  if (run == nullptr) return real_select(count, in, out, other, timeout);
  Time deadline = never;
  if (timeout != nullptr) deadline = run->now() + Time{timeout->tv_sec} * second + Time{timeout->tv_usec} * 1000;
  return wait_for_sets(*run, count, {in, out, other}, deadline);
}

int pselect(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* timeout, const sigset_t* mask) {
  Scheduler* const run = active();
  if (run == nullptr) return real_pselect(count, in, out, other, timeout, mask);
  if (mask != nullptr) refuse("pselect with a signal mask");
  return wait_for_sets(*run, count, {in, out, other}, deadline_after(*run, timeout));
}

int epoll_wait(int descriptor, epoll_event* events, int count, int timeout_ms) {
  Scheduler* const run = active();
  if (run != nullptr && timeout_ms != 0) {
    pollfd wanted{descriptor, POLLIN, 0};
    wait_for(*run, &wanted, 1, deadline_after_ms(*run, timeout_ms));
    timeout_ms = 0;
  }
  return real_epoll_wait(descriptor, events, count, timeout_ms);
}

ssize_t read(int descriptor, void* data, size_t bytes) {
  wait_for(descriptor, POLLIN);
  return real_read(descriptor, data, bytes);
}

ssize_t readv(int descriptor, const iovec* parts, int count) {
  wait_for(descriptor, POLLIN);
  return real_readv(descriptor, parts, count);
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  wait_for(descriptor, POLLOUT);
  if (lacks_space(descriptor, bytes)) return -1;
  return real_write(descriptor, data, bytes);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  wait_for(descriptor, POLLOUT);
  size_t all = 0;
  for (int i = 0; i < count; ++i) all += parts[i].iov_len;
  size_t bytes = all;
  if (lacks_space(descriptor, bytes)) return -1;
  return bytes < all ? write_first(descriptor, parts, count, bytes) : real_writev(descriptor, parts, count);
}

ssize_t recv(int descriptor, void* data, size_t bytes, int flags) {
  wait_for(descriptor, POLLIN, flags);
  return real_recv(descriptor, data, bytes, flags);
}

ssize_t recvfrom(int descriptor, void* data, size_t bytes, int flags, sockaddr* source, socklen_t* source_bytes) {
  wait_for(descriptor, POLLIN, flags);
  return real_recvfrom(descriptor, data, bytes, flags, source, source_bytes);
}

ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  wait_for(descriptor, POLLIN, flags);
  return real_recvmsg(descriptor, message, flags);
}

ssize_t send(int descriptor, const void* data, size_t bytes, int flags) {
  wait_for(descriptor, POLLOUT, flags);
  return real_send(descriptor, data, bytes, flags);
}

ssize_t sendto(int descriptor, const void* data, size_t bytes, int flags, const sockaddr* target,
               socklen_t target_bytes) {
  wait_for(descriptor, POLLOUT, flags);
  return real_sendto(descriptor, data, bytes, flags, target, target_bytes);
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  wait_for(descriptor, POLLOUT, flags);
  return real_sendmsg(descriptor, message, flags);
}

int accept(int descriptor, sockaddr* address, socklen_t* bytes) {
  wait_for(descriptor, POLLIN);
  return real_accept(descriptor, address, bytes);
}

int accept4(int descriptor, sockaddr* address, socklen_t* bytes, int flags) {
  wait_for(descriptor, POLLIN);
  return real_accept4(descriptor, address, bytes, flags);
}

int sigwait(const sigset_t* set, int* signal) {
  Scheduler* const run = active();
  if (run == nullptr) return real_sigwait(set, signal);
  const int taken = wait_for_signal(*run, set, nullptr, never);
  if (taken < 0) return errno;
  *signal = taken;
  return 0;
}

int sigwaitinfo(const sigset_t* set, siginfo_t* info) {
  Scheduler* const run = active();
  return run == nullptr ? real_sigwaitinfo(set, info) : wait_for_signal(*run, set, info, never);
}

int sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  Scheduler* const run = active();
  if (run == nullptr) return real_sigtimedwait(set, info, timeout);
  return wait_for_signal(*run, set, info, deadline_after(*run, timeout));
}

}  // extern "C"
