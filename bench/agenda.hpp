// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a run will measure, known before it measures anything.

#pragma once

#include "case.hpp"
#include "list_call.hpp"
#include "options.hpp"
#include "row.hpp"

#include <cstdint>
#include <vector>

namespace perf {

/// Cases, or lists.
struct Agenda {
  std::vector<Case> cases;
  std::vector<ListCase> lists;
};
/// Local, as everything here.
[[nodiscard]] Agenda agenda_of(const Options& options, const Job& job);

[[nodiscard]] Identity identity_of(const Case& what, const Job& job);
[[nodiscard]] Identity identity_of(const ListCase& what, ListMode mode, const Job& job);
/// Of all rows that the agenda makes.
[[nodiscard]] std::vector<Identity> identities_of(const Agenda& agenda, const Options& options, const Job& job);

/// The bytes of memory that a rank needs for the agenda.
[[nodiscard]] std::int64_t memory_bytes(const Agenda& agenda, const Options& options, const Job& job);

}  // namespace perf
