// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The settings that LOCKSTEP_* environment variables give.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::detail {

/// What moves data between nodes.
enum class TransportSetting : std::uint8_t { mpi, tcp, automatic };

struct Settings {
  std::chrono::milliseconds warn_after{30'000};
  std::chrono::milliseconds fail_after{300'000};
  std::chrono::milliseconds fail_after_total{0};  ///< zero: unlimited
  bool force_canonical_order = false;
  bool allow_singleton = false;
  bool share_memory = true;
  TransportSetting transport = TransportSetting::mpi;
  bool encrypts = false;      ///< what goes over TCP
  std::string tcp_interface;  ///< empty: all
  std::string tcp_address;    ///< empty: those of the interfaces
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0;
  std::size_t recorder_entries = 512;  ///< operations in the flight record of each communicator; 0: no recorder
  std::string recorder_directory;      ///< empty: a directory for temporary files
  std::string metrics_file;            ///< empty: no metrics
  std::string trace_directory;         ///< empty: no trace
  std::string hash_log_directory;      ///< empty: no hash log
  std::string radices;                 ///< stages of all_reduce and of large reduces; empty: chosen by the planner
};

/// Reads the environment.
/// Throws Error(invalid_argument), which names the variable, its value and the rule.
///   LOCKSTEP_TIMEOUT=FAIL, WARN,FAIL or WARN,FAIL,TOTAL   seconds, decimals allowed, 0 < WARN <= FAIL <= TOTAL
///   LOCKSTEP_ORDER=canonical             reductions with Order::any use the canonical order
///   LOCKSTEP_RADICES=LIST                stages of all_reduce and of large reduces, as in schedule/radices.hpp
///   LOCKSTEP_SHARED_MEMORY=0             ranks of one node exchange messages, like ranks of different nodes
///   LOCKSTEP_TRANSPORT=mpi, tcp or auto  what moves data between nodes; auto: what is faster when the job starts
///   LOCKSTEP_ENCRYPTION=1                encrypt what goes over TCP between nodes; with LOCKSTEP_TRANSPORT=tcp only
///   LOCKSTEP_INTERFACE=NAME or SUBNET    the interfaces on which other ranks connect, with tcp and auto
///   LOCKSTEP_PORTS=FIRST-LAST            the ports on which a rank waits for them
///   LOCKSTEP_ADDRESS=ADDRESS             the address to which they connect, where it is none of this host's
///   LOCKSTEP_RECORDER=ENTRIES[,DIRECTORY]  operations in the flight record of each communicator, and the directory
///                                        of its file; 0: no recorder
///   LOCKSTEP_METRICS=FILE                every rank writes metrics to FILE, with `.rankN` before the extension
///   LOCKSTEP_TRACE=DIRECTORY             every rank writes the times of its operations to a file in DIRECTORY
///   LOCKSTEP_HASH_LOG=DIRECTORY          every rank writes hashes of the inputs and outputs of its operations to a
///   file
///                                        in DIRECTORY
///   LOCKSTEP_ALLOW_SINGLETON=1           accept one MPI rank although the launcher started several
[[nodiscard]] Settings settings_from_environment();

/// Logs a warning for each unknown LOCKSTEP_* variable. LOCKSTEP_TRAIN_* and LOCKSTEP_PERF_* belong to programs and are
/// not reported.
void report_unknown_variables();

}  // namespace lockstep::detail
