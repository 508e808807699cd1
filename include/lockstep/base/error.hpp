// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The only exception type of lockstep. If all ranks can detect an error, all ranks throw it, with the same code and
// text.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

namespace detail {
struct PropagationMark;
}

/// The kind of error that an Error reports.
enum class Code : std::uint8_t {
  invalid_argument,     ///< an argument that is wrong in every state of the program
  failed_precondition,  ///< a valid call in the wrong context, scope or state
  unimplemented,        ///< a combination of arguments that is not implemented
  mismatch,             ///< ranks called different operations, or with different arguments; no data was moved
  deadline_exceeded,    ///< the operation timed out because a rank or a device did not respond
  unavailable,          ///< a backend is missing, or another rank failed or was lost
  out_of_range,         ///< past the end of the data
  data_loss,            ///< corrupt or truncated data
  internal,             ///< internal error (a bug in lockstep)
};

/// The name of `code` in error texts: "mismatch", "deadline_exceeded", ...
/// Local. Thread-safe.
LOCKSTEP_API std::string_view to_string(Code code) noexcept;

/// Where an error arose. Unknown members are -1 or empty.
struct ErrorContext {
  int rank = -1;               ///< rank that caused the error, or for which the operation waited
  int replica = -1;            ///< global replica id
  std::string operation;       ///< name that the caller gave to the operation; without such a name: "all_reduce", ...
  std::int64_t sequence = -1;  ///< sequence number of the operation on its communicator
};

/// The exception. `what()` returns `<code>: <text>`. Copyable, as exceptions must be.
class LOCKSTEP_API Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& text, ErrorContext context = {});

  [[nodiscard]] Code code() const noexcept { return code_; }
  /// The message without its code.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] int rank() const noexcept { return context_.rank; }
  [[nodiscard]] int replica() const noexcept { return context_.replica; }
  [[nodiscard]] const std::string& operation() const noexcept { return context_.operation; }
  [[nodiscard]] std::int64_t sequence() const noexcept { return context_.sequence; }
  [[nodiscard]] const ErrorContext& context() const noexcept { return context_; }

 private:
  friend struct detail::PropagationMark;

  Code code_;
  std::string text_;
  ErrorContext context_;
  std::shared_ptr<const void> propagated_on_;  // identifies the communicator that propagated this error, or null
};

}  // namespace lockstep
