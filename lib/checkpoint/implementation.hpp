// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a Checkpoint holds: the tracked objects by name, and the save that is under way.

#pragma once

#include "checkpoint/file.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_header.hpp"

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep {

/// Memory that is kept from one background save to the next: new pages would cost more than the copy.
struct CopiedBytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t capacity = 0;
  std::byte* at_least(std::size_t count);
};

class Checkpoint::Implementation {
 public:
  /// What the copies of a sync-on-read variable are saved under, behind its name.
  static constexpr std::string_view copies_suffix = ".replicas";

  struct TrackedVariable {
    std::string name;
    Variable variable;
  };
  struct TrackedWords {
    std::string name;
    WordsObject object;
  };

  Implementation(const Communicator& ranks, const CheckpointOptions& chosen);

  void require_free_name(const std::string& name) const;
  [[nodiscard]] bool is_taken(const std::string& name) const noexcept;
  /// Throws Error(failed_precondition) in a step function, and while a save is under way.
  void require_ready(std::string_view call) const;

  Communicator communicator;
  CheckpointOptions options;
  std::vector<TrackedVariable> variables;
  std::vector<TrackedWords> words;
  std::weak_ptr<PendingSave::Implementation> pending;
  std::shared_ptr<CopiedBytes> copied = std::make_shared<CopiedBytes>();
};

/// One save on this rank, from the state that is to be written to the name that it gets.
class PendingSave::Implementation {
 public:
  /// Everything that is Collective before the writing. Throws on all ranks.
  Implementation(Checkpoint::Implementation& checkpoint, const detail::Path& directory, std::int64_t step);
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation();

  /// Copies what this rank writes; the variables may change then.
  void copy();
  /// Writes on a thread of its own.
  void write_in_background();
  /// Writes here.
  void write() noexcept;
  /// Collective.
  detail::Path finish();
  [[nodiscard]] bool is_finished() const noexcept { return finished_; }

 private:
  void collect(Checkpoint::Implementation& checkpoint);
  void add_tensor(const std::string& name, const Tensor& tensor, const Variable& variable);
  void collect_words(Checkpoint::Implementation& checkpoint);
  void lay_out(std::size_t parallel_bytes);
  [[nodiscard]] bool writes() const noexcept { return sliced_ || communicator_.rank() == 0; }
  void write_blocks();
  /// On rank 0: the manifest, and the name.
  void commit();

  Communicator communicator_;
  detail::Path directory_;
  std::int64_t step_;
  int keep_last_;
  detail::Path unfinished_;
  bool sliced_ = false;  // all ranks write
  detail::SafetensorsHeader header_;
  std::string header_bytes_;
  std::map<std::string, Tensor> tensors_;  // what is saved; the variables' own memory where that is it
  std::vector<detail::FileBlock> blocks_;
  std::vector<const std::byte*> sources_;  // of this rank's blocks, by number; null of others'
  std::vector<std::uint32_t> checksums_;   // of blocks
  detail::Manifest manifest_;
  std::shared_ptr<CopiedBytes> copied_;

  std::thread thread_;        // writes; what follows is its until it is joined
  std::exception_ptr error_;  // of the writing here
  bool finished_ = false;
  std::exception_ptr failure_;  // what finish has thrown
};

}  // namespace lockstep
