// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The one exception type of lockstep. A mistake that all ranks can see is thrown by all ranks, with the same code and
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

/// What kind of mistake or fault an Error reports.
enum class Code : std::uint8_t {
  invalid_argument,     ///< a value that no state would make right
  failed_precondition,  ///< a right call in the wrong context, scope or state
  unimplemented,        ///< a combination that this library does not offer
  mismatch,             ///< ranks disagree on the operation; no data was moved
  deadline_exceeded,    ///< a rank or a message was not there in time
  unavailable,          ///< a peer or a backend is gone, or a peer failed
  out_of_range,         ///< the end of data
  data_loss,            ///< damaged or truncated data
  internal,             ///< a bug in lockstep
};

/// The name of `code` as it is printed: "mismatch", "deadline_exceeded", ...
/// Local. Thread-safe.
LOCKSTEP_API std::string_view to_string(Code code) noexcept;

/// Where an error arose; -1 and empty if that is not known.
struct ErrorContext {
  int rank = -1;               ///< the rank that made the mistake or is missing, not the one that throws
  int replica = -1;            ///< global replica id
  std::string operation;       ///< "all_reduce", or the name that the caller gave
  std::int64_t sequence = -1;  ///< number of the operation on its communicator
};

/// `what()` reads `<code>: <text>`. Copyable, as exceptions must be.
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
  std::shared_ptr<const void> propagated_on_;  // identifies the communicator whose ranks all know of this error
};

}  // namespace lockstep
