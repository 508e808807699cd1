// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a Checkpoint (the tracked objects by name), of a PendingSave (the save in progress) and of a restore.

#pragma once

#include "base/mutex.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_header.hpp"

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/tensor.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep {

/// Buffer that all background saves reuse, because page faults in a new buffer would cost more than the copy.
struct CopiedBytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t capacity = 0;
  std::byte* at_least(std::size_t count);
};

class Checkpoint::Implementation {
 public:
  /// Suffix of the name under which the copies of a sync-on-read variable are saved.
  static constexpr std::string_view copies_suffix = ".replicas";

  struct TrackedVariable {
    std::string name;
    Variable variable;
  };
  struct TrackedWords {
    std::string name;
    WordsObject object;
  };

  /// `strategy` is null for a Checkpoint without a strategy.
  Implementation(Strategy* strategy, const Communicator& ranks, const CheckpointOptions& chosen);

  /// Throws Error(invalid_argument) for a variable of another strategy.
  void require_own(const std::string& name, const Variable& variable) const;
  void require_free_name(const std::string& name) const;
  [[nodiscard]] bool is_taken(const std::string& name) const noexcept;
  /// Throws Error(failed_precondition) if it is called in replica context or while a save is in progress.
  void require_ready(std::string_view call) const;

  Strategy* strategy;
  Communicator communicator;
  CheckpointOptions options;
  std::vector<TrackedVariable> variables;
  std::vector<TrackedWords> words;
  std::weak_ptr<PendingSave::Implementation> pending;
  std::shared_ptr<CopiedBytes> copied = std::make_shared<CopiedBytes>();
};

/// One save on this rank, from collecting the state to renaming the finished folder.
class PendingSave::Implementation {
 public:
  /// Collects the state, so that copy() and write() need no collectives. Collective: an error on one rank throws on all
  /// ranks.
  Implementation(Checkpoint::Implementation& checkpoint, const detail::Path& directory, std::int64_t step);
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation();

  /// Copies the data that this rank writes. After this call the variables may change.
  void copy();
  /// Starts the thread of write_in_background, which writes nothing before that call. Throws Error(unavailable) if the
  /// thread cannot be started.
  void start_thread();
  /// Lets the thread write. All ranks have started theirs.
  void write_in_background() noexcept;
  /// Writes on the calling thread.
  void write() noexcept;
  /// Waits until all ranks have written their data and the checkpoint is committed; returns its path. Collective.
  std::string finish();
  [[nodiscard]] bool is_finished() const noexcept { return finished_; }
  [[nodiscard]] Communicator& communicator() noexcept { return communicator_; }

 private:
  void collect(Checkpoint::Implementation& checkpoint);
  void add_tensor(const std::string& name, const Tensor& tensor, const Variable& variable);
  void collect_words(Checkpoint::Implementation& checkpoint);
  void lay_out(std::size_t parallel_bytes);
  [[nodiscard]] bool writes() const noexcept { return sliced_ || communicator_.rank() == 0; }
  void write_blocks();
  /// On rank 0: writes the manifest and renames the folder.
  void commit();

  Communicator communicator_;
  detail::Path directory_;
  std::int64_t step_;
  int keep_last_;
  detail::Path unfinished_;
  bool sliced_ = false;  // all ranks write; if false, only rank 0 writes
  detail::SafetensorsHeader header_;
  std::string header_bytes_;
  std::map<std::string, Tensor> tensors_;  // saved tensors; may share memory with the variables
  std::vector<detail::FileBlock> blocks_;
  std::vector<const std::byte*> sources_;  // data of each block; null for a block that another rank writes
  std::vector<std::uint32_t> checksums_;   // by block
  detail::Manifest manifest_;
  std::shared_ptr<CopiedBytes> copied_;

  enum class Start : std::uint8_t { awaited, writes, is_cancelled };
  /// Sets what the thread waits for, unless it is set already. Returns whether it has set it.
  bool set_start(Start start) noexcept;
  detail::Mutex start_mutex_;
  std::condition_variable start_changed_;
  Start start_ LOCKSTEP_GUARDED_BY(start_mutex_) = Start::awaited;  // what thread_ waits for
  std::thread thread_;        // runs write(); until the join, no other thread uses the data that write() changes
  std::exception_ptr error_;  // exception of write() on this rank
  bool finished_ = false;
  std::exception_ptr failure_;  // exception that finish() has thrown; later calls rethrow it
};

namespace detail {

/// The word for a tracked object of this kind in the texts of errors: "generator", "iterator".
[[nodiscard]] inline std::string_view shown_kind(std::string_view kind) noexcept {
  return kind == "input" ? "iterator" : kind;
}

/// Restores a checkpoint. First reads and checks all files, and agrees with all ranks that no rank has failed. Only
/// then changes the tracked objects, by operations that cannot fail.
class Restore {
 public:
  Restore(Checkpoint::Implementation& checkpoint, const Path& path, const RestoreOptions& options);

  /// Returns the step of the checkpoint, or -1 for a plain safetensors file. Collective.
  std::int64_t run();

 private:
  void read();
  void check_names() const;
  [[nodiscard]] bool is_known(const std::string& name) const;
  void check_tensor(const std::string& name, const Variable& variable) const;
  [[nodiscard]] const TensorEntry* find(const std::string& name) const;
  [[nodiscard]] bool copies_fit(const std::string& name, const Variable& variable) const;
  [[nodiscard]] Tensor load(const File& file, const TensorEntry& entry) const;
  void check_block(std::span<const std::byte> bytes, const TensorEntry& entry, std::size_t number) const;
  void prepare_words();
  void write() const;

  Checkpoint::Implementation& checkpoint_;
  Path path_;
  RestoreOptions options_;
  Path file_;                         // the tensor file
  std::string label_;                 // prefix of error texts; has the name of the file
  std::optional<Manifest> manifest_;  // not set if a plain safetensors file is restored
  std::uint64_t fingerprint_ = 0;     // checksums of the manifest and the header; identifies the file
  SafetensorsHeader header_;
  std::map<std::string, Tensor> loaded_;
  std::vector<std::function<void()>> changes_;  // functions that change the tracked objects that are not variables
};

}  // namespace detail
}  // namespace lockstep
