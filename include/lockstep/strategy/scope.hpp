// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <memory>

namespace lockstep {

class Strategy;
struct ScopeRecord;

/// Makes a strategy current on this thread, in cross-replica context, until it is destroyed. Made by `Strategy::scope`,
/// and entered by that, once. Pinned.
/// Scopes of one strategy nest; closing an outer one first ends both. One that is closed inside a step, merge_call or
/// update that began in it ends when that returns; one that is closed on another thread never ends on its own: both are
/// nesting errors, which a destructor can but report in the log.
class LOCKSTEP_API [[nodiscard]] Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  friend class Strategy;
  explicit Scope(Strategy& strategy);

  std::unique_ptr<ScopeRecord> record_;
};

}  // namespace lockstep
