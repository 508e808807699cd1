// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "virtual_time/stack.hpp"

#include "virtual_time/real.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>

namespace lockstep::virtual_time::detail {
namespace {

VIRTUAL_TIME_REAL(nanosleep);
VIRTUAL_TIME_REAL(write);

/// The symbol table of this program, which names local functions as well.
class Symbols {
 public:
  void load() {
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status{};
    if (file < 0 || fstat(file, &status) != 0) return;
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* const image = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (image == MAP_FAILED) return;
    const auto* const begin = static_cast<const char*>(image);
    const auto& header = *reinterpret_cast<const ElfW(Ehdr)*>(begin);
    const std::span sections(reinterpret_cast<const ElfW(Shdr)*>(begin + header.e_shoff), header.e_shnum);
    for (const auto& section : sections) {
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols_ = {reinterpret_cast<const ElfW(Sym)*>(begin + section.sh_offset), section.sh_size / sizeof(ElfW(Sym))};
      names_ = begin + sections[section.sh_link].sh_offset;
    }
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* base) {  // the first object is the program
          *static_cast<std::uintptr_t*>(base) = info->dlpi_addr;
          return 1;
        },
        &base_);
  }

  /// Null if no function of this program contains `address`.
  [[nodiscard]] const char* name_of(const void* address) const noexcept {
    const std::uintptr_t value = reinterpret_cast<std::uintptr_t>(address) - base_;
    for (const auto& symbol : symbols_) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && value - symbol.st_value < symbol.st_size)
        return names_ + symbol.st_name;
    }
    return nullptr;
  }

 private:
  std::span<const ElfW(Sym)> symbols_;
  const char* names_ = nullptr;
  std::uintptr_t base_ = 0;
};

Symbols symbols_of_the_program;
std::atomic<bool> has_printed;

void print_on_signal(int) {
  print_this_stack();
  has_printed.store(true, std::memory_order_release);
}

int printing_signal() { return SIGRTMAX - 1; }

/// What is known of the code at an address.
class Place {
 public:
  explicit Place(const void* address) noexcept {
    const bool is_found = dladdr(address, &info_) != 0;
    name_ = symbols_of_the_program.name_of(address);
    if (name_ == nullptr && is_found) name_ = info_.dli_sname;
    int status = 0;
    if (name_ != nullptr) readable_.reset(abi::__cxa_demangle(name_, nullptr, nullptr, &status));
  }
  [[nodiscard]] const char* function() const noexcept {
    if (readable_ != nullptr) return readable_.get();
    return name_ == nullptr ? "?" : name_;
  }
  [[nodiscard]] const char* file() const noexcept { return info_.dli_fname == nullptr ? "?" : info_.dli_fname; }

 private:
  Dl_info info_{};
  const char* name_ = nullptr;
  std::unique_ptr<char, decltype(&std::free)> readable_{nullptr, std::free};
};

/// The address behind a call is that to which it returns.
const void* call_before(const void* address) noexcept { return static_cast<const char*>(address) - 1; }

}  // namespace

void prepare_stacks() {
  static const bool is_prepared = [] {
    symbols_of_the_program.load();
    std::array<void*, 4> frames{};
    backtrace(frames.data(), static_cast<int>(frames.size()));
    struct sigaction action{};
    action.sa_handler = print_on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(printing_signal(), &action, nullptr);
    return true;
  }();
  static_cast<void>(is_prepared);
}

std::string function_at(const void* address) { return Place(call_before(address)).function(); }

void print_this_stack() noexcept {
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 1; i < count; ++i) {
    const void* const address = call_before(frames[static_cast<std::size_t>(i)]);
    const Place place(address);
    print_line("  #%d %p %s (%s)", i, address, place.function(), place.file());
  }
}

void print_stack_of(pthread_t thread) noexcept {
  has_printed.store(false, std::memory_order_relaxed);
  if (pthread_kill(thread, printing_signal()) != 0) return;
  for (int tries = 0; tries < 200 && !has_printed.load(std::memory_order_acquire); ++tries) {
    const timespec pause{0, 10'000'000};
    real_nanosleep(&pause, nullptr);
  }
}

void print_line(const char* format, ...) noexcept {
  std::array<char, 4096> line{};
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line.data(), line.size() - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  auto bytes = std::min(static_cast<std::size_t>(length), line.size() - 2);
  line[bytes++] = '\n';
  [[maybe_unused]] const auto written = real_write(STDERR_FILENO, line.data(), bytes);
}

}  // namespace lockstep::virtual_time::detail
