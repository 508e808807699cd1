// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A distributed dataset without its element type: batches for the replicas of one rank. `DistributedDataset<T>` is the
// typed interface to it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/input/element_keys.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Static dtype and shape of a tensor. An extent without a value is not known before the tensor is read. Value type.
struct TensorSpec {
  DType dtype = DType::f32;
  std::vector<std::optional<std::int64_t>> shape;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Text such as "i64[?, 28]". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const TensorSpec& spec);

/// A position in a distributed dataset: `step` steps of pass `pass` have been returned. With
/// AutoShardPolicy::automatic, the position is equal on all ranks, and denotes the same data on any layout with the
/// same number of replicas. Value type.
struct ReadingPosition {
  std::uint64_t pass = 0;
  std::uint64_t step = 0;
  friend bool operator==(const ReadingPosition&, const ReadingPosition&) = default;
};

}  // namespace lockstep

namespace lockstep::input {

/// Reads one pass over a distributed dataset. Move-only. Thread-safety: one thread at a time. The destructor stops the
/// prefetch thread, and waits only until the thread has prepared the current step.
class LOCKSTEP_API DistributedReader {
 public:
  class Implementation;
  explicit DistributedReader(Owned<Implementation> implementation) noexcept;
  DistributedReader(DistributedReader&&) noexcept;
  DistributedReader& operator=(DistributedReader&&) noexcept;
  ~DistributedReader();

  /// Stores the batch of local replica i in `batches[i]`. Returns false at the end, and in every later call. All ranks
  /// reach the end after the same number of steps.
  /// Rethrows exceptions of reading; after an exception, the pass is over on this rank, and the error is propagated to
  /// InputLayout::peers, if set.
  /// Throws Error(invalid_argument) in replica context.
  bool next(std::vector<Leaves>& batches);
  /// The position of the step that the next call of `next` returns; steps prepared ahead do not count. Local.
  [[nodiscard]] ReadingPosition position() const noexcept;
  /// Seconds that `next` has waited for data.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  Owned<Implementation> implementation_;
};

/// A dataset distributed to the replicas. Shared handle: copies share the pass number. Thread-safety: any thread.
class LOCKSTEP_API DistributedPipeline {
 public:
  class Implementation;
  explicit DistributedPipeline(std::shared_ptr<Implementation> implementation) noexcept;

  /// Without an argument, starts the next pass. With an argument, starts pass `pass`; the next pass number is
  /// unchanged. Passes are numbered from 0 in the order in which they begin. Collective for datasets from a function,
  /// and with AutoShardPolicy file, off and hint; otherwise Local.
  [[nodiscard]] DistributedReader open() const;
  [[nodiscard]] DistributedReader open(std::uint64_t pass) const;
  /// Starts reading at `position`; the next pass is then pass `position.pass + 1`. Collective or Local as `open`.
  [[nodiscard]] DistributedReader resume(ReadingPosition position) const;
  /// Dtypes and static shapes of a batch's tensors, for each local replica: see DistributedDataset::element_spec.
  [[nodiscard]] std::vector<std::vector<TensorSpec>> element_spec() const;
  /// Text that describes the data that each rank reads: see DistributedDataset::describe.
  [[nodiscard]] std::string describe() const;
  /// Global id of the first replica of this rank.
  [[nodiscard]] int first_replica() const noexcept;
  /// Number of replicas of this rank.
  [[nodiscard]] int local_replicas() const noexcept;
  /// Seconds that all readers of this pipeline together have waited for data.
  [[nodiscard]] double wait_seconds() const noexcept;

 private:
  std::shared_ptr<Implementation> implementation_;
};

/// Divides the batches of `global` among the replicas as `options` specify. `global` must be the same dataset on all
/// ranks. `structure` has the number of tensors in an element. If there is only one replica, `global` need not be
/// batched; the replica then gets single elements. This call is Local. With AutoShardPolicy automatic and data, reading
/// is Local too. With file, off and hint, reading is Collective as described at `distribute_local_pipelines`, and
/// beginning a pass throws Error(mismatch) if the ranks distribute datasets with different batch sizes. If only reading
/// tells whether an element is a batch, as for a generator, reading throws Error(invalid_argument) for an element that
/// cannot be divided. Throws Error(invalid_argument) if `global` has single elements but there are several replicas, if
/// the rank is not in the layout, if an option is out of range, or if the policy is incompatible with the layout or the
/// dataset. Throws Error(unimplemented) for InputReplicationMode::per_replica. Errors are propagated to
/// InputLayout::peers, if set.
[[nodiscard]] LOCKSTEP_API DistributedPipeline distribute_pipeline(const Pipeline& global,
                                                                   const ElementStructure& structure,
                                                                   const InputLayout& layout,
                                                                   const InputOptions& options);

/// Distributes datasets that belong to this rank. In each step, every local replica gets one element: if `local` has
/// one dataset, the local replicas take consecutive elements of this dataset; otherwise `local` has one dataset per
/// local replica. `structure` has the number of tensors in an element, equal on all ranks. Opening a pass is Collective
/// over `communicator`: the ranks exchange the lengths of their datasets. If a rank does not know a length, each `next`
/// is Collective too, and exchanges one byte per replica. For `devices`, see InputLayout.
[[nodiscard]] LOCKSTEP_API DistributedPipeline distribute_local_pipelines(const std::vector<Pipeline>& local,
                                                                          const ElementStructure& structure,
                                                                          const Communicator& communicator,
                                                                          const InputOptions& options,
                                                                          const std::vector<Device>& devices = {});

/// Throws Error(invalid_argument) if `options` are invalid for a dataset function. Local.
LOCKSTEP_API void check_function_options(const InputOptions& options);

}  // namespace lockstep::input
