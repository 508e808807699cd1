// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes a checkpoint. Every rank computes the same list of tensors and the same division into blocks. Each rank writes
// its blocks to one file; rank 0 alone writes a small checkpoint. Then rank 0 writes the manifest and renames the
// folder.

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "base/log.hpp"
#include "base/start_thread.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/implementation.hpp"
#include "context/replica_team.hpp"
#include "device/host/host_elements.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/detail/propagate.hpp>

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <utility>

namespace lockstep {

using detail::File;
using detail::FileBlock;
using detail::Manifest;
using detail::Path;

namespace {

void require_aggregation(const std::string& name, const Variable& variable) {
  if (variable.aggregation() != VariableAggregation::none || VariableAccess::team(variable).has_plain_variables())
    return;
  detail::throw_error(Code::invalid_argument,
                      "save: the variable \"{}\" is synchronized on read, so the aggregate of all replicas' copies is "
                      "saved, but its aggregation is none. Create it with aggregation sum, mean or only_first_replica",
                      name);
}

/// What a rank saves, one line each: the directory, the step, and the tracked objects in their order.
std::string save_text(const Checkpoint::Implementation& checkpoint, const Path& directory, std::int64_t step) {
  std::string text = fmt::format("directory \"{}\"\nstep {}\n", directory.string(), step);
  for (const auto& [name, variable] : checkpoint.variables) {
    text += fmt::format("\"{}\" {}{} (synchronization {}, aggregation {})\n", name, to_string(variable.dtype()),
                        to_string(variable.shape()), to_string(variable.synchronization()),
                        to_string(variable.aggregation()));
  }
  for (const auto& [name, object] : checkpoint.words)
    text += fmt::format("\"{}\" ({})\n", name, detail::shown_kind(object.kind));
  return text;
}

/// The error text for the first line that differs between two texts of save_text.
std::string difference_of_saves(const detail::TextOfRank& first, const detail::TextOfRank& other) {
  std::istringstream first_lines(first.text);
  std::istringstream other_lines(other.text);
  for (int number = -1;; ++number) {  // of the object, after the lines of the directory and the step
    std::string here;
    std::string there;
    const bool is_here = static_cast<bool>(std::getline(first_lines, here));
    const bool is_there = static_cast<bool>(std::getline(other_lines, there));
    if (is_here && is_there && here == there) continue;
    if (number < 1) {
      return fmt::format("save: rank {} passes {}, but rank {} passes {}; all ranks must save the same checkpoint",
                         first.rank, here, other.rank, there);
    }
    return fmt::format(
        "save: tracked object {} (counted from 0) is {} on rank {}, but {} on rank {}; all ranks must track the same "
        "objects in the same order",
        number - 1, is_here ? here : "missing", first.rank, is_there ? there : "missing", other.rank);
  }
}

}  // namespace

std::byte* CopiedBytes::at_least(std::size_t count) {
  if (capacity < count) {
    bytes.reset();  // the old buffer is freed before the new one is allocated
    bytes = std::make_unique_for_overwrite<std::byte[]>(count);
    capacity = count;
  }
  return bytes.get();
}

PendingSave::Implementation::Implementation(Checkpoint::Implementation& checkpoint, const Path& directory,
                                            std::int64_t step)
    : communicator_(checkpoint.communicator),
      directory_(directory),
      step_(step),
      keep_last_(checkpoint.options.keep_last),
      copied_(checkpoint.copied) {
  if (step < 0) detail::throw_error(Code::invalid_argument, "save: step is {}; it must be at least 0", step);
  const std::string what = save_text(checkpoint, directory, step);
  detail::require_same(communicator_, detail::crc32c(std::as_bytes(std::span(what))), what, difference_of_saves);
  detail::require_name("save", directory);  // after the comparison, so that all ranks throw
  unfinished_ = detail::unfinished_path(directory, step, detail::from_rank_0(communicator_, std::random_device()()));
  detail::propagate(communicator_, [&] {
    collect(checkpoint);
    collect_words(checkpoint);
    lay_out(checkpoint.options.parallel_bytes);
  });
}

PendingSave::Implementation::~Implementation() {
  if (!thread_.joinable()) return;
  // a rank could not start its thread, and all ranks have thrown its error
  const bool is_cancelled = set_start(Start::is_cancelled);
  thread_.join();
  if (is_cancelled) return;
  if (error_ || sliced_) {
    detail::log_warning(
        "checkpoint: the PendingSave of step {} to {} was destroyed before wait(); this checkpoint is not complete",
        step_, directory_.string());
  }
}

void PendingSave::Implementation::add_tensor(const std::string& name, const Tensor& tensor, const Variable& variable) {
  const auto extents = tensor.shape().extents();
  header_.tensors.push_back({name, tensor.dtype(), tensor.shape(), 0, 0});
  manifest_.tensors[name] = {tensor.dtype(),
                             {extents.begin(), extents.end()},
                             std::string(to_string(variable.synchronization())),
                             std::string(to_string(variable.aggregation())),
                             {}};
  tensors_.insert_or_assign(name, detail::host_tensor(tensor));
}

void PendingSave::Implementation::collect(Checkpoint::Implementation& checkpoint) {
  const bool has_copies = communicator_.layout().replicas() > 1;
  for (const auto& [name, variable] : checkpoint.variables) {
    if (variable.synchronization() != VariableSynchronization::on_read) {
      add_tensor(name, variable.component(0), variable);
      continue;
    }
    require_aggregation(name, variable);
    add_tensor(name, variable.read(), variable);
    if (!has_copies) continue;
    std::vector<Tensor> here;
    std::vector<ConstTensorView> copies;
    for (int i = 0; i < variable.component_count(); ++i) {
      here.push_back(detail::host_tensor(variable.component(i)));
      copies.push_back(std::as_const(here.back()).view());
    }
    add_tensor(name + std::string(Checkpoint::Implementation::copies_suffix),
               detail::gather_rows_of_replicas(communicator_, copies), variable);
  }
}

void PendingSave::Implementation::collect_words(Checkpoint::Implementation& checkpoint) {
  manifest_.step = step_;
  const auto counts = communicator_.layout().counts();
  manifest_.layout.assign(counts.begin(), counts.end());
  for (const auto& [name, object] : checkpoint.words) {
    const Checkpoint::Words words = object.read();
    Manifest::WordsRecord& record = manifest_.words[name];
    record = {object.kind, words.common, {}};
    if (words.of_replica.empty()) continue;
    std::vector<ConstTensorView> local;
    for (const std::uint64_t& word : words.of_replica) local.push_back(view_of(std::span(&word, 1)));
    const Tensor all = detail::gather_rows_of_replicas(communicator_, local);
    const auto elements = all.elements<std::uint64_t>();
    record.of_replica.assign(elements.begin(), elements.end());
  }
}

void PendingSave::Implementation::lay_out(std::size_t parallel_bytes) {
  header_.metadata = {{"format", "np"}, {"written_by", "lockstep"}};
  header_bytes_ = detail::format_header(header_);
  sliced_ = communicator_.size() > 1 && header_.data_bytes >= parallel_bytes;
  blocks_ = detail::file_blocks(header_, detail::block_bytes, sliced_ ? communicator_.size() : 1);
  manifest_.block_bytes = detail::block_bytes;
  manifest_.file_bytes = header_.data_offset + header_.data_bytes;
  manifest_.header_checksum = detail::crc32c(std::as_bytes(std::span(header_bytes_)));
  checksums_.assign(blocks_.size(), 0);
  for (const FileBlock& block : blocks_) {
    const bool mine = block.writer == communicator_.rank();
    const auto* const data =
        static_cast<const std::byte*>(std::as_const(tensors_.at(header_.tensors[block.tensor].name)).data());
    sources_.push_back(mine ? data + block.offset : nullptr);
  }
}

void PendingSave::Implementation::copy() {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < blocks_.size(); ++k) bytes += sources_[k] != nullptr ? blocks_[k].bytes : 0;
  std::byte* next = copied_->at_least(bytes);
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    if (sources_[k] == nullptr) continue;
    std::memcpy(next, sources_[k], blocks_[k].bytes);
    sources_[k] = std::exchange(next, next + blocks_[k].bytes);
  }
  tensors_.clear();
}

void PendingSave::Implementation::write_blocks() {
  // every rank creates missing directories, so that no rank has to wait for rank 0
  detail::make_directories(unfinished_);
  File file = File::open_to_write(unfinished_ / detail::state_name);
  if (communicator_.rank() == 0) file.write_at(0, std::as_bytes(std::span(header_bytes_)));
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    if (sources_[k] == nullptr) continue;
    const std::span<const std::byte> bytes(sources_[k], blocks_[k].bytes);
    checksums_[k] = detail::crc32c(bytes);
    file.write_at(header_.data_offset + header_.tensors[blocks_[k].tensor].begin + blocks_[k].offset, bytes);
  }
  file.sync();
}

void PendingSave::Implementation::write() noexcept {
  if (!writes()) return;
  try {
    write_blocks();
    if (!sliced_) commit();
  } catch (...) {
    error_ = std::current_exception();
    if (!sliced_) detail::remove_quietly(unfinished_);
  }
}

void PendingSave::Implementation::start_thread() {
  if (!writes()) return;
  thread_ = detail::start_thread({"save_async: the thread that writes the checkpoint", "call save"}, [this] {
    {
      detail::MutexLock lock(start_mutex_);
      while (start_ == Start::awaited) lock.wait(start_changed_);
      if (start_ == Start::is_cancelled) return;
    }
    write();
  });
}

bool PendingSave::Implementation::set_start(Start start) noexcept {
  {
    const detail::MutexLock lock(start_mutex_);
    if (start_ != Start::awaited) return false;
    start_ = start;
  }
  start_changed_.notify_one();
  return true;
}

void PendingSave::Implementation::write_in_background() noexcept { set_start(Start::writes); }

void PendingSave::Implementation::commit() {
  for (std::size_t k = 0; k < blocks_.size(); ++k)
    manifest_.tensors.at(header_.tensors[blocks_[k].tensor].name).checksums.push_back(checksums_[k]);
  detail::write_text(unfinished_ / detail::manifest_name, detail::to_text(manifest_));
  detail::commit(directory_, unfinished_, step_, keep_last_);
}

std::string PendingSave::Implementation::finish() {
  if (failure_) std::rethrow_exception(failure_);
  if (std::exchange(finished_, true)) return detail::step_path(directory_, step_);
  if (thread_.joinable()) thread_.join();
  try {
    detail::rethrow_on_all_ranks(communicator_, error_);
    if (sliced_) {
      detail::add_over_ranks(communicator_, checksums_);
      detail::run_on_all_ranks(communicator_, [&] {
        if (communicator_.rank() == 0) commit();
      });
    }
  } catch (...) {
    failure_ = std::current_exception();
    if (communicator_.rank() == 0) detail::remove_quietly(unfinished_);
    throw;
  }
  return detail::step_path(directory_, step_);
}

PendingSave::PendingSave(std::shared_ptr<Implementation> implementation) noexcept
    : implementation_(std::move(implementation)) {}
PendingSave::PendingSave(PendingSave&&) noexcept = default;
PendingSave& PendingSave::operator=(PendingSave&&) noexcept = default;
PendingSave::~PendingSave() = default;

std::string PendingSave::wait() {
  return detail::propagate_lack_of_memory(implementation_->communicator(), [&] { return implementation_->finish(); });
}

}  // namespace lockstep
