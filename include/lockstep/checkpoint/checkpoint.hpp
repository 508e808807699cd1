// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A strategy's variables and input position to files and back, at any number of ranks.
//
//   Checkpoint checkpoint(strategy);
//   checkpoint.track("model", parameters).track("optimizer", *optimizer).track("input", iterator);
//   std::int64_t step = checkpoint.restore_latest(directory).value_or(0);
//   for (; step < steps; ++step) {
//     strategy.run(train_step, iterator.get_next());
//     if ((step + 1) % 1000 == 0) checkpoint.save(directory, step + 1);
//   }
//
// A checkpoint is a folder "step-000000001000" with two files: state.safetensors holds all tensors and is a plain
// safetensors file, manifest.json holds step, layout, checksums, and what is no tensor. Of each variable the value that
// the cross-replica context reads is saved under its name: what stands in the file does not depend on the ranks, and
// can be restored at another number of ranks or replicas, under another strategy, or under none. README.md beside this
// header says more about restarts.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/input/distributed_pipeline.hpp>
#include <lockstep/values/tree.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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
  /// Complete checkpoints that stay in the directory, those of the highest steps and the one just saved; the others are
  /// removed after a save. 0: all stay. Default 5.
  int keep_last = 5;
  /// From this many bytes on all ranks write, each a slice of the file, which needs a directory that all of them share;
  /// below, rank 0 alone writes. Default 64 MiB; SIZE_MAX where only rank 0 sees the directory.
  std::size_t parallel_bytes = std::size_t{64} << 20;
};

/// Which names of a file must be tracked.
enum class RestoredNames : std::uint8_t {
  all,      ///< every one; the default
  tracked,  ///< those that are tracked; what else the file holds is left out
};

struct RestoreOptions {
  RestoredNames names = RestoredNames::all;
};

/// A save under way. Move-only. When it is destroyed before `wait` it waits for this rank's writing, and tells nobody;
/// a file that several ranks write is then no checkpoint yet.
class LOCKSTEP_API PendingSave {
 public:
  class Implementation;
  explicit PendingSave(std::shared_ptr<Implementation> implementation) noexcept;
  PendingSave(PendingSave&&) noexcept;
  PendingSave& operator=(PendingSave&&) noexcept;
  ~PendingSave();

  /// Returns the checkpoint's folder when everything is on the disk. Collective, in cross-replica context or outside of
  /// every scope, before the next save or restore. Throws, on all ranks and each time, what `Checkpoint::save` would.
  std::filesystem::path wait();

 private:
  std::shared_ptr<Implementation> implementation_;
};

/// Names what is saved, and saves and restores it.
///
/// What is restored at the same number of replicas goes on with the same bits as if it had never been away, however the
/// replicas lie on ranks: for variables that are synchronized on read the copies are saved too, as "<name>.replicas"
/// with one row for each. At another number of replicas, or from a file without copies, a copy gets the saved value; of
/// the sum value / replicas, of integers without remainder, which goes to the first replicas, and where the quotients
/// do not add up to the value exactly, replica 0 gets it all: the total is always what was saved.
///
/// Move-only. Thread-safety: one thread at a time; under MPI_THREAD_FUNNELED the main one.
class LOCKSTEP_API Checkpoint {
 public:
  /// The numbers of an object that is no variable: those that all ranks share, and one for each local replica, or none.
  struct Words {
    std::vector<std::uint64_t> common;
    std::vector<std::uint64_t> of_replica;
  };
  class Implementation;

  /// Local. The strategy must outlive it. Throws Error(invalid_argument) for a negative keep_last.
  explicit Checkpoint(Strategy& strategy, const CheckpointOptions& options = {});
  /// For variables made outside of every scope, which have one copy: this rank alone saves and restores.
  explicit Checkpoint(const CheckpointOptions& options = {});
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// Saves `object` as `name` from now on. Local; all ranks track the same, in the same order. `object` is
  ///   - a variable, saved as `name`;
  ///   - what has variables in its `state()`: an optimizer, a metric; or a tree of variables: a vector, a map, a tuple,
  ///   a
  ///     struct that opted in. Each is saved as "name/<its own name>", with "_1", "_2" where that is taken;
  ///   - a Generator, or a DistributedIterator: kept by reference, it must outlive the checkpoint. Both are to be
  ///     changed by nobody else during a save or restore.
  /// A generator made in scope goes on at the same number of replicas where each replica was; at another, replicas with
  /// ids that were not saved begin their streams.
  /// Throws Error(invalid_argument) for a name that is taken, empty, no UTF-8, or reserved ("__metadata__", and
  /// whatever ends in ".replicas").
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
      static_assert(std::is_lvalue_reference_v<T>, "track: a generator is kept by reference; give a named one");
      add_words(name, stream_of(object));
    } else if constexpr (requires { object.at(object.position()); }) {
      static_assert(std::is_lvalue_reference_v<T>, "track: an iterator is kept by reference; give a named one");
      add_words(name, position_of(object));
    } else {
      std::vector<Variable> variables;
      for_each_leaf(object, [&](const auto& leaf) {
        static_assert(std::derived_from<std::remove_cvref_t<decltype(leaf)>, Variable>,
                      "track: give a variable, a tree of variables, or an optimizer, metric, generator or iterator");
        variables.push_back(leaf);
      });
      add_variables(name, variables);
    }
    return *this;
  }

  /// Saves everything tracked as the checkpoint `step` of `directory`, which is made if need be, and returns the
  /// checkpoint's folder. A checkpoint of that step is replaced. Collective, in cross-replica context or outside of
  /// every scope, with the same arguments on all ranks; a directory belongs to one job at a time.
  /// Everything is written under another name, is on the disk, and gets its name in one step: a kill at any moment
  /// leaves the checkpoints before as they are. Memory: all copies of variables that are synchronized on read; what is
  /// mirrored is written from where it lies.
  /// Throws the same Error on all ranks, and leaves no new checkpoint: invalid_argument for an on_read variable without
  /// aggregation, a negative step, a path that cannot be; failed_precondition where writing is not allowed, or in a
  /// step function; unavailable where there is no space.
  std::filesystem::path save(const std::filesystem::path& directory, std::int64_t step);

  /// The same in the background: returns when the state has been copied, and variables may change again. Collective.
  /// What rank 0 writes alone is a checkpoint as soon as it is written; what all write becomes one in
  /// `PendingSave::wait`. Memory: the bytes that this rank writes, all of the state or its share of it, kept for the
  /// next time. One at a time: throws Error(failed_precondition) before the last one's `wait`.
  [[nodiscard]] PendingSave save_async(const std::filesystem::path& directory, std::int64_t step);

  /// Restores everything tracked from `path`: a checkpoint's folder, or any safetensors file, of whatever origin, whose
  /// names are the tracked ones. Returns the step; -1 of a bare file, which has none. Collective, in cross-replica
  /// context or outside of every scope.
  /// All is read and checked before anything changes: everything tracked changes, or nothing. Memory: that of the
  /// restored tensors once more, on each rank, until it returns. Generators and iterators come with a folder only.
  /// Throws the same Error on all ranks, with file, tensor and reason: invalid_argument for a path that does not exist,
  /// for a name that is missing in the file or not tracked, and for another dtype or shape than the variable's;
  /// failed_precondition for what may not be read; data_loss for what is truncated or damaged; mismatch where ranks see
  /// different files.
  std::int64_t restore(const std::filesystem::path& path, const RestoreOptions& options = {});
  /// The checkpoint of that step.
  std::int64_t restore(const std::filesystem::path& directory, std::int64_t step, const RestoreOptions& options = {});
  /// The checkpoint with the highest step in `directory`, as rank 0 sees it. Nothing, and nothing changes, where there
  /// is none, or no directory.
  std::optional<std::int64_t> restore_latest(const std::filesystem::path& directory,
                                             const RestoreOptions& options = {});

  /// The folder of the complete checkpoint with the highest step. Local.
  [[nodiscard]] static std::optional<std::filesystem::path> latest(const std::filesystem::path& directory);
  /// Steps of all complete checkpoints, in order. Local.
  [[nodiscard]] static std::vector<std::int64_t> steps(const std::filesystem::path& directory);

 private:
  struct WordsObject {
    std::string kind;
    std::function<Words()> read;
    /// Throws when the words cannot be; what it returns makes them the object's, and does not throw.
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
              Generator(generator).restore(state);  // throws what it would
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
