// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Observes the host and the process, without MPI and without the library.

#pragma once

#include "doctor/facts.hpp"

#include <string>

namespace doctor {

/// Reads the facts of this host and process. Files are read below `root`, so that tests can make a host of files; "" is
/// the real one. Never throws for what is missing: the fact stays unknown.
[[nodiscard]] RankFacts host_facts(const std::string& root = {});

/// The processors' worth of time that cgroups permit this process; -1: unlimited or unknown.
[[nodiscard]] double processor_limit_of_cgroup(const std::string& root);

/// A hash of the bytes of the file; empty if it cannot be read.
[[nodiscard]] std::string hash_of_file(const std::string& path);

}  // namespace doctor
