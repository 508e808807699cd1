// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A line of a program in another language as a std::source_location.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <source_location>
#include <type_traits>

namespace lockstep::interop {

/// A copy of `text` that is kept until the process ends, the same one for equal texts, since operations recognize a
/// line by the address of its file's name, and Fortran passes a new copy in each call. If memory is exhausted, an empty
/// text. Thread-safe.
[[nodiscard]] const char* lasting_copy(const char* text) noexcept;

/// Owns the data of its location, which must not outlive it. The library copies the text of a location during a call.
/// The standard has no constructor with a file and a line. In libstdc++ and libc++, a location is a pointer to the
/// record below, whose layout the compilers fix for __builtin_source_location.
class CallerLine {
 public:
  /// If `file` is null, the location is empty.
  CallerLine(const char* file, int line) noexcept : is_known_(file != nullptr && line > 0) {
    const Record record{is_known_ ? lasting_copy(file) : nullptr, "", static_cast<unsigned>(line), 0};
    std::memcpy(record_.data(), &record, sizeof(record));
  }
  CallerLine(const CallerLine&) = delete;
  CallerLine& operator=(const CallerLine&) = delete;

  [[nodiscard]] std::source_location location() const noexcept {
    static_assert(sizeof(std::source_location) == sizeof(void*) && std::is_trivially_copyable_v<std::source_location>);
    return is_known_ ? std::bit_cast<std::source_location>(record_.data()) : std::source_location();
  }

 private:
  struct Record {
    const char* file;
    const char* function;
    unsigned line;
    unsigned column;
  };
  alignas(Record) std::array<std::byte, sizeof(Record)> record_{};
  bool is_known_;
};

}  // namespace lockstep::interop
