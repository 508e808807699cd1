// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI_Init may abort the process, crash, or never return. So MPI runs in a child process, which this one watches: it
// ends the child at a deadline, and reports what can be known without MPI.

#pragma once

#include <functional>
#include <string>

namespace doctor {

/// The child's side of the pipe to its parent.
class Progress {
 public:
  explicit Progress(int file) : file_(file) {}
  /// The child begins `stage`, which may take `seconds`.
  void begin(const std::string& stage, double seconds) const;
  /// The report is printed, or is the task of another rank; the parent will return `code` whatever happens later.
  void done(int code) const;

 private:
  int file_;
};

struct Outcome {
  bool is_reported = false;
  int code = 0;
  std::string failure;  ///< if not reported: "MPI_Init_thread did not return within 5 s", "... ended with exit code 1"
};

/// Runs `work` in a child process, at most as long as each stage permits, and kills it at the end if necessary. Call it
/// while the process has one thread. Throws std::runtime_error if no process can be made.
[[nodiscard]] Outcome supervise(const std::function<void(const Progress&)>& work);

}  // namespace doctor
