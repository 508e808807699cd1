// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "interop/c_last_error.hpp"

#include <lockstep/lockstep.h>
#include <lockstep/base/error.hpp>

#include <cstdint>
#include <exception>
#include <new>
#include <string>

namespace lockstep::interop {
namespace {

constexpr int code_number(Code code) noexcept { return static_cast<int>(code) + 1; }

static_assert(code_number(Code::invalid_argument) == LOCKSTEP_INVALID_ARGUMENT);
static_assert(code_number(Code::failed_precondition) == LOCKSTEP_FAILED_PRECONDITION);
static_assert(code_number(Code::unimplemented) == LOCKSTEP_UNIMPLEMENTED);
static_assert(code_number(Code::mismatch) == LOCKSTEP_MISMATCH);
static_assert(code_number(Code::deadline_exceeded) == LOCKSTEP_DEADLINE_EXCEEDED);
static_assert(code_number(Code::unavailable) == LOCKSTEP_UNAVAILABLE);
static_assert(code_number(Code::out_of_range) == LOCKSTEP_OUT_OF_RANGE);
static_assert(code_number(Code::data_loss) == LOCKSTEP_DATA_LOSS);
static_assert(code_number(Code::internal) == LOCKSTEP_INTERNAL);

struct LastError {
  int code = LOCKSTEP_SUCCESS;
  int rank = -1;
  std::int64_t sequence = -1;
  std::string text;
  std::string operation;
};

/// The last error of this thread. C programs read it after the call has returned, so it cannot be passed on otherwise.
thread_local LastError last_error;

void store(int code, const char* text, const ErrorContext& context) noexcept {
  last_error.code = code;
  last_error.rank = context.rank;
  last_error.sequence = context.sequence;
  try {
    last_error.operation = context.operation;
    last_error.text = text;
  } catch (...) {  // out of memory: short texts need no allocation
    last_error.operation.clear();
    last_error.text = "out of memory";
  }
}

}  // namespace

int store_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    store(code_number(error.code()), error.what(), error.context());
  } catch (const std::bad_alloc&) {
    store(LOCKSTEP_UNAVAILABLE, "unavailable: out of memory", {});
  } catch (const std::exception& error) {
    store(LOCKSTEP_INTERNAL, error.what(), {});
  } catch (...) {
    store(LOCKSTEP_INTERNAL, "internal: an exception that is not a std::exception", {});
  }
  return last_error.code;
}

}  // namespace lockstep::interop

using lockstep::interop::last_error;

int lockstep_last_error_code() { return last_error.code; }
const char* lockstep_last_error_text() { return last_error.text.c_str(); }
int lockstep_last_error_rank() { return last_error.rank; }
const char* lockstep_last_error_operation() { return last_error.operation.c_str(); }
std::int64_t lockstep_last_error_sequence() { return last_error.sequence; }

const char* lockstep_code_name(int code) {
  if (code == LOCKSTEP_SUCCESS) return "success";
  if (code < LOCKSTEP_SUCCESS || code > LOCKSTEP_INTERNAL) return "unknown";
  return to_string(static_cast<lockstep::Code>(code - 1)).data();  // a literal, which ends in a zero
}
