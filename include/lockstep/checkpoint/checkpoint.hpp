// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Saves the variables and the input position of a strategy to files, and restores them at any number of ranks.
//
//   Checkpoint checkpoint(strategy);
//   checkpoint.track("model", parameters).track("optimizer", *optimizer).track("input", iterator);
//   std::int64_t step = checkpoint.restore_latest(directory).value_or(0);
//   for (; step < steps; ++step) {
//     strategy.run(train_step, iterator.get_next());
//     if ((step + 1) % 1000 == 0) checkpoint.save(directory, step + 1);
//   }
//
// A checkpoint is a folder, such as "step-000000001000", with two files. state.safetensors is a plain safetensors file
// with all tensors. manifest.json has the step, the replica layout, the checksums, and all state that is not a tensor.
// The tensor of a variable has the value that the program reads in cross-replica context. So a checkpoint can be
// restored at another number of ranks or replicas, under another strategy, or without a strategy. README.md in the
// folder of this header describes restarts.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/input/distributed_pipeline.hpp>
#include <lockstep/values/tree.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

class Strategy;

struct CheckpointOptions {
  /// Number of complete checkpoints that remain in the directory after a save: the checkpoint just saved, and those
  /// with the highest steps. The save removes all other complete checkpoints. 0: a save removes no complete checkpoint.
  /// Default 5.
  int keep_last = 5;
  /// Size in bytes from which on the state is written in parallel: each rank writes a slice of the file, so all ranks
  /// must share the directory. A smaller state is written by rank 0 only. Default 64 MiB. If only rank 0 sees the
  /// directory, use SIZE_MAX.
  std::size_t parallel_bytes = std::size_t{64} << 20;
};

/// The names in a checkpoint that must be tracked when the checkpoint is restored.
enum class RestoredNames : std::uint8_t {
  all,      ///< every name must be tracked; the default
  tracked,  ///< no name has to be tracked: saved objects that are not tracked are ignored
};

struct RestoreOptions {
  RestoredNames names = RestoredNames::all;
};

/// A save in progress. Move-only. If a PendingSave is destroyed before `wait`, the destructor waits until this rank has
/// written its data. If the write failed, or if all ranks write slices, the checkpoint remains incomplete, and the
/// destructor logs a warning.
class LOCKSTEP_API PendingSave {
 public:
  class Implementation;
  explicit PendingSave(std::shared_ptr<Implementation> implementation) noexcept;
  PendingSave(PendingSave&&) noexcept;
  PendingSave& operator=(PendingSave&&) noexcept;
  ~PendingSave();

  /// Waits until the checkpoint is on the disk, and returns the path of its folder. Collective, in cross-replica
  /// context or outside of every scope; must be called before the next save or restore of the same Checkpoint.
  /// Throws the errors of `Checkpoint::save`, on all ranks. Every further call throws the same error again.
  std::string wait();

 private:
  std::shared_ptr<Implementation> implementation_;
};

/// Saves and restores a set of named objects.
///
/// If a checkpoint is restored at the same number of replicas, training continues bit for bit as if it had not been
/// interrupted, even if the replicas are distributed over other ranks. For this purpose, a save also stores all copies
/// of the variables that are synchronized on read, as the tensor "<name>.replicas" with one row per replica.
/// If the number of replicas is different, or if the file has no copies, a restore writes the saved value to every
/// copy. The exception is aggregation sum, for which the copies get shares that sum to exactly the saved value. A share
/// is value / replicas; for integers, the first replicas also get the remainder. If floating-point shares do not sum to
/// exactly the saved value, replica 0 gets the whole value and the other replicas get 0.
/// Move-only.
/// Thread-safety: one thread at a time; under MPI_THREAD_FUNNELED only the main thread.
class LOCKSTEP_API Checkpoint {
 public:
  /// State of an object that is not a variable.
  struct Words {
    std::vector<std::uint64_t> common;      ///< numbers that are equal on all ranks
    std::vector<std::uint64_t> of_replica;  ///< one number for each local replica, or empty
  };
  class Implementation;

  /// Local. The strategy must outlive the Checkpoint. Throws Error(invalid_argument) for a negative keep_last.
  explicit Checkpoint(Strategy& strategy, const CheckpointOptions& options = {});
  /// For variables that were created outside of every scope; such a variable has one copy. Saves and restores involve
  /// only this rank. Throws as above.
  explicit Checkpoint(const CheckpointOptions& options = {});
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// Adds `object` to the saved objects, under the name `name`. Local; all ranks must track the same objects in the
  /// same order. `object` is one of these:
  ///   - A variable. Its saved name is `name`.
  ///   - An optimizer or a metric, whose `state()` returns variables; or a tree of variables (a vector, map, tuple or
  ///     opted-in struct). Each variable is saved as "name/<name of the variable>". If that name is taken, the suffix
  ///     "_1" or "_2" and so on is added.
  ///   - A Generator or a DistributedIterator. The Checkpoint keeps a reference to the object. So the object must
  ///     outlive the Checkpoint, and no other thread may use the object during a save or restore.
  /// If a generator was created in a scope, a restore continues the stream of each replica. If there are more replicas
  /// than at the save, the streams of the additional replicas begin from the start.
  /// Throws Error(invalid_argument) for a name that is taken, empty, not UTF-8, or reserved ("__metadata__", and names
  /// that end in ".replicas"), and for a variable of another strategy. Variables that were created outside of every
  /// scope can always be tracked.
  template <class T>
  Checkpoint& track(const std::string& name, T&& object) {
    using Object = std::remove_cvref_t<T>;
    if constexpr (std::derived_from<Object, Variable>) {
      add_variable(name, object);
    } else if constexpr (requires {
                           { object.state() } -> std::same_as<std::vector<Variable>>;
                         }) {
      add_variables(name, object.state());
    } else if constexpr (requires { object.restore(object.state()); }) {
      static_assert(std::is_lvalue_reference_v<T>, "track: a generator is kept by reference; pass an lvalue");
      add_words(name, stream_of(object));
    } else if constexpr (requires { object.at(object.position()); }) {
      static_assert(std::is_lvalue_reference_v<T>, "track: an iterator is kept by reference; pass an lvalue");
      add_words(name, position_of(object));
    } else {
      std::vector<Variable> variables;
      for_each_leaf(object, [&](const auto& leaf) {
        static_assert(
            std::derived_from<std::remove_cvref_t<decltype(leaf)>, Variable>,
            "track: object must be a variable, a tree of variables, an optimizer, metric, generator or iterator");
        variables.push_back(leaf);
      });
      add_variables(name, variables);
    }
    return *this;
  }

  /// Saves all tracked objects as the checkpoint of step `step` in `directory`, and returns the path of the
  /// checkpoint's folder. Creates the directory if it does not exist, and replaces an existing checkpoint of the same
  /// step. Collective, in cross-replica context or outside of every scope, with the same arguments on all ranks. Only
  /// one job at a time may use a directory. The save writes a folder with a temporary name, syncs the folder to the
  /// disk, and renames it atomically. So even if the job is killed during the save, the earlier checkpoints are intact.
  /// Memory: all copies of the variables that are synchronized on read. Mirrored variables in host memory are written
  /// without a copy.
  /// If the save fails, it creates no checkpoint, and all ranks throw the same Error: invalid_argument for an on_read
  /// variable without aggregation (unless it is plain, see Variable), a negative step, or an invalid path;
  /// failed_precondition if the process may not write to the directory, or if the call is in a step function; mismatch
  /// if ranks pass different arguments, or track different objects or in another order; unavailable if there is no
  /// space on the disk, or if a rank has no memory. Exception: if the directory cannot be flushed to the disk after the
  /// rename, all ranks throw, and the complete checkpoint exists. If earlier checkpoints cannot be removed, the save
  /// succeeds, and rank 0 logs a warning.
  std::string save(const std::string& directory, std::int64_t step);

  /// Saves in the background. Returns when the state has been copied; from then on the variables may change.
  /// Collective. If rank 0 writes the whole state, the checkpoint is complete as soon as rank 0 has written it. If all
  /// ranks write slices, the checkpoint is complete only after `PendingSave::wait`.
  /// Memory: as `save`, and a copy of the data that this rank writes (the whole state, or this rank's slice). The next
  /// call reuses the memory of this copy.
  /// Throws Error(unavailable) on all ranks if a rank cannot start the thread that writes; then no rank writes.
  /// Only one save may be in progress: throws Error(failed_precondition) if `wait` of the previous save has not been
  /// called.
  [[nodiscard]] PendingSave save_async(const std::string& directory, std::int64_t step);

  /// Restores all tracked objects from `path`: the folder of a checkpoint, or a safetensors file, written by any
  /// program, whose tensors have the tracked names. Returns the step of the checkpoint. If `path` is a file, returns
  /// -1, because a file has no step. Collective, in cross-replica context or outside of every scope. Reads and checks
  /// all data before it changes any object. So if the restore fails, no object has changed.
  /// Memory: a second copy of the restored tensors on each rank, until the call returns. Generators and iterators can
  /// be restored from a folder only.
  /// All ranks throw the same Error, with file, tensor and reason: invalid_argument if the path does not exist, if a
  /// tracked name is not in the file, if a name in the file is not tracked (see RestoreOptions), or if the dtype or
  /// shape of a tensor is not that of the variable; failed_precondition if the process may not read a file, or if the
  /// call is in a step function; data_loss if a file is truncated or damaged; mismatch if ranks see different files.
  std::int64_t restore(const std::string& path, const RestoreOptions& options = {});
  /// Restores the checkpoint of step `step` in `directory`.
  std::int64_t restore(const std::string& directory, std::int64_t step, const RestoreOptions& options = {});
  /// Restores the checkpoint with the highest step that rank 0 sees in `directory`, and returns the step. If there is
  /// no checkpoint, or no directory, changes no object and returns std::nullopt. A step folder without a manifest is
  /// the rest of a save that was not completed; it is skipped. If the step of such a folder is higher than the restored
  /// step, rank 0 logs one warning.
  /// Throws as `restore`. Also throws Error(invalid_argument) if the directory is not empty but has no step folder, or
  /// if a step folder without a manifest has files that do not belong to a checkpoint. Names that begin with a dot are
  /// ignored.
  std::optional<std::int64_t> restore_latest(const std::string& directory, const RestoreOptions& options = {});

  /// Path of the folder of the complete checkpoint with the highest step; std::nullopt if `directory` has no complete
  /// checkpoint. Local.
  [[nodiscard]] static std::optional<std::string> latest(const std::string& directory);
  /// Steps of all complete checkpoints in `directory`, ascending. Local.
  [[nodiscard]] static std::vector<std::int64_t> steps(const std::string& directory);

 private:
  struct WordsObject {
    std::string kind;
    Function<Words()> read;
    /// Checks the words, and throws if they are invalid. Returns a function that assigns the words to the object and
    /// does not throw.
    Function<Function<void()>(const Words&)> prepare;
  };
  void add_variable(const std::string& name, const Variable& variable);
  void add_variables(const std::string& name, const std::vector<Variable>& variables);
  void add_words(const std::string& name, WordsObject object);

  template <class Generator>
  static WordsObject stream_of(Generator& generator) {
    using State = decltype(generator.state());
    return {"generator",
            [&generator] {
              const State state = generator.state();
              return Words{{state.seed, state.number, state.common, state.in_scope ? std::uint64_t{1} : 0},
                           state.of_replica};
            },
            [&generator](const Words& words) -> Function<void()> {
              State state;
              state.seed = words.common.at(0);
              state.number = static_cast<std::uint32_t>(words.common.at(1));
              state.common = words.common.at(2);
              state.in_scope = words.common.at(3) != 0;
              state.of_replica = words.of_replica;
              Generator(generator).restore(state);  // throws if the state is invalid
              return [&generator, state] { generator.restore(state); };
            }};
  }
  template <class Iterator>
  static WordsObject position_of(Iterator& iterator) {
    return {"input",
            [&iterator] {
              const ReadingPosition position = iterator.position();
              return Words{{position.pass, position.step}, {}};
            },
            [&iterator](const Words& words) -> Function<void()> {
              const ReadingPosition position{words.common.at(0), words.common.at(1)};
              auto there = std::make_shared<Iterator>(iterator.at(position));
              return [&iterator, there] { iterator = std::move(*there); };
            }};
  }

  Owned<Implementation> implementation_;
};

}  // namespace lockstep
