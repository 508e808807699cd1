// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <memory>

namespace lockstep {

class Strategy;

/// Makes a strategy current on this thread, in cross-replica context, until it is destroyed. Made by `Strategy::scope`.
/// Scopes of one strategy nest. Destroy scopes in the reverse order, on the thread that made them: another order is
/// reported in the log, and what the outer one restores holds. Pinned.
class LOCKSTEP_API [[nodiscard]] Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  friend class Strategy;
  explicit Scope(Strategy& strategy);

  struct Saved;
  std::unique_ptr<Saved> saved_;
};

}  // namespace lockstep
