// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Saves a strategy's variables and input position to files and restores them, at any number of ranks.
//
//   Checkpoint checkpoint(strategy);
//   checkpoint.track("model", parameters).track("optimizer", *optimizer).track("input", iterator);
//   std::int64_t step = checkpoint.restore_latest(directory).value_or(0);
//   for (; step < steps; ++step) {
//     strategy.run(train_step, iterator.get_next());
//     if ((step + 1) % 1000 == 0) checkpoint.save(directory, step + 1);
//   }
//
// A checkpoint is a folder "step-000000001000" with two files: state.safetensors is a plain safetensors file with all
// tensors; manifest.json has the step, layout, checksums, and the state that is not a tensor. The saved value of a
// variable is the value that is read in cross-replica context, under the variable's name. So the file does not depend
// on the ranks, and can be restored at another number of ranks or replicas, under another strategy, or under none.
// README.md beside this header describes restarts.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/input/distributed_pipeline.hpp>
#include <lockstep/values/tree.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

class Strategy;

struct CheckpointOptions {
  /// Number of complete checkpoints that a save keeps in the directory: the one just saved and those with the highest
  /// steps; it removes the others. 0: keeps all. Default 5.
  int keep_last = 5;
  /// If the state has at least this many bytes, every rank writes a slice of the file, so all ranks must share the
  /// directory; otherwise rank 0 writes alone. Default 64 MiB. Use SIZE_MAX if only rank 0 sees the directory.
  std::size_t parallel_bytes = std::size_t{64} << 20;
};

/// Which names of a checkpoint must be tracked.
enum class RestoredNames : std::uint8_t {
  all,      ///< all of them; the default
  tracked,  ///< none: objects that are not tracked are ignored
};

struct RestoreOptions {
  RestoredNames names = RestoredNames::all;
};

/// A save in progress. Move-only. If it is destroyed before `wait`, the destructor waits for this rank's writing and
/// logs a failure; if all ranks write, the checkpoint is not completed then.
class LOCKSTEP_API PendingSave {
 public:
  class Implementation;
  explicit PendingSave(std::shared_ptr<Implementation> implementation) noexcept;
  PendingSave(PendingSave&&) noexcept;
  PendingSave& operator=(PendingSave&&) noexcept;
  ~PendingSave();

  /// Waits until everything is on the disk, and returns the checkpoint's folder. Collective, in cross-replica context
  /// or outside of every scope; must be called before the next save or restore.
  /// Throws as `Checkpoint::save`, on all ranks, and again in every further call.
  std::string wait();

 private:
  std::shared_ptr<Implementation> implementation_;
};

/// Saves and restores a set of named objects.
///
/// Restored at the same number of replicas, training continues bit for bit as if it had not been interrupted, whatever
/// the assignment of replicas to ranks: the copies of variables that are synchronized on read are saved too, as
/// "<name>.replicas" with one row per replica. At another number of replicas, or from a file without copies, every copy
/// gets the saved value, except for aggregation sum: each copy gets value / replicas, the first replicas get the
/// remainder of integers, and if floating-point quotients do not sum to the value exactly, replica 0 gets all of it. So
/// the total is always the saved one.
/// Move-only.
/// Thread-safety: one thread at a time; under MPI_THREAD_FUNNELED the main one.
class LOCKSTEP_API Checkpoint {
 public:
  /// State of an object that is not a variable: numbers that are equal on all ranks, and one number for each local
  /// replica, or none.
  struct Words {
    std::vector<std::uint64_t> common;
    std::vector<std::uint64_t> of_replica;
  };
  class Implementation;

  /// Local. The strategy must outlive it. Throws Error(invalid_argument) for a negative keep_last.
  explicit Checkpoint(Strategy& strategy, const CheckpointOptions& options = {});
  /// For variables created outside of every scope, which have one copy. Only this rank saves and restores.
  explicit Checkpoint(const CheckpointOptions& options = {});
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// Adds `object` to the saved objects, as `name`. Local; all ranks track the same objects in the same order. `object`
  /// is
  ///   - a variable, saved as `name`;
  ///   - an optimizer or a metric, whose `state()` returns variables; or a tree of variables (a vector, map, tuple or
  ///     opted-in struct). Each variable is saved as "name/<its own name>", with "_1", "_2" if that is taken;
  ///   - a Generator or a DistributedIterator. It is kept by reference and must outlive the checkpoint, and must not be
  ///     used by another thread during a save or restore.
  /// A generator created in a scope continues each replica's stream. At a larger number of replicas, those with ids
  /// that were not saved begin their streams from the start.
  /// Throws Error(invalid_argument) for a name that is taken, empty, not UTF-8, or reserved ("__metadata__", and names
  /// that end in ".replicas").
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

  /// Saves all tracked objects as the checkpoint `step` of `directory`, and returns the checkpoint's folder. Creates
  /// the directory if it does not exist; replaces a checkpoint of the same step. Collective, in cross-replica context
  /// or outside of every scope, with the same arguments on all ranks. Only one job at a time may use a directory. The
  /// checkpoint is written to a folder with another name, synced to the disk, and renamed atomically: if the job is
  /// killed at any moment, earlier checkpoints are intact.
  /// Memory: all copies of variables that are synchronized on read; mirrored variables are written from their own
  /// memory.
  /// Throws the same Error on all ranks, and creates no checkpoint then: invalid_argument for an on_read variable
  /// without aggregation (unless it is plain, see Variable), a negative step, or an invalid path; failed_precondition
  /// if writing is not allowed, or in a step function; unavailable if there is no space.
  std::string save(const std::string& directory, std::int64_t step);

  /// Saves in the background: returns once the state has been copied, so that variables may change again. Collective.
  /// If rank 0 writes alone, the checkpoint is complete as soon as it is written; if all ranks write,
  /// `PendingSave::wait` completes it.
  /// Memory: a copy of the data that this rank writes (all of the state, or its slice), which the next call reuses.
  /// Only one save may be in progress: throws Error(failed_precondition) before `wait` of the previous one.
  [[nodiscard]] PendingSave save_async(const std::string& directory, std::int64_t step);

  /// Restores all tracked objects from `path`: a checkpoint's folder, or a safetensors file of any origin with the
  /// tracked names. Returns the step; -1 for a plain file, which has none. Collective, in cross-replica context or
  /// outside of every scope. Reads and checks everything before it changes anything: either all tracked objects change,
  /// or none.
  /// Memory: a second copy of the restored tensors on each rank, until it returns. Generators and iterators can be
  /// restored from a folder only.
  /// Throws the same Error on all ranks, with file, tensor and reason: invalid_argument for a path that does not exist,
  /// a name that is missing in the file or is not tracked, and a dtype or shape other than the variable's;
  /// failed_precondition if a file may not be read; data_loss if it is truncated or damaged; mismatch if ranks see
  /// different files.
  std::int64_t restore(const std::string& path, const RestoreOptions& options = {});
  /// Restores the checkpoint of step `step` in `directory`.
  std::int64_t restore(const std::string& directory, std::int64_t step, const RestoreOptions& options = {});
  /// Restores the checkpoint with the highest step in `directory`, as rank 0 sees it, and returns the step. If there is
  /// no checkpoint or no directory, changes nothing and returns nothing. Skips step folders without a manifest, whose
  /// saves were not complete, and warns once on rank 0 of those with a higher step than the restored one.
  /// Throws also Error(invalid_argument) if the directory has no checkpoints but other entries, or if a step folder
  /// without a manifest has files that are not of a checkpoint; names that begin with a dot are ignored.
  std::optional<std::int64_t> restore_latest(const std::string& directory, const RestoreOptions& options = {});

  /// The folder of the complete checkpoint with the highest step; nothing if there is none. Local.
  [[nodiscard]] static std::optional<std::string> latest(const std::string& directory);
  /// Steps of all complete checkpoints, ascending. Local.
  [[nodiscard]] static std::vector<std::int64_t> steps(const std::string& directory);

 private:
  struct WordsObject {
    std::string kind;
    std::function<Words()> read;
    /// Checks the words, and throws if they are invalid; the returned function assigns them to the object and does not
    /// throw.
    std::function<std::function<void()>(const Words&)> prepare;
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
            [&generator](const Words& words) -> std::function<void()> {
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
            [&iterator](const Words& words) -> std::function<void()> {
              const ReadingPosition position{words.common.at(0), words.common.at(1)};
              auto there = std::make_shared<Iterator>(iterator.at(position));
              return [&iterator, there] { iterator = std::move(*there); };
            }};
  }

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
