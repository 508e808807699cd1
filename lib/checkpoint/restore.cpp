// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/implementation.hpp"

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "base/printable.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/file.hpp"
#include "context/replica_team.hpp"
#include "core/visit_dtype.hpp"
#include "device/host/host_elements.hpp"
#include "variables/elementwise.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/device/gpu.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::uint64_t most_manifest_bytes = std::uint64_t{1} << 30;

std::string copies_name(const std::string& name) {
  return name + std::string(Checkpoint::Implementation::copies_suffix);
}

/// Number of copies of a variable on all ranks.
int replicas_of(const Variable& variable) { return VariableAccess::team(variable).replicas(); }

bool is_on_read(const Variable& variable) { return variable.synchronization() == VariableSynchronization::on_read; }

/// The canonical sum of `count` equal values. The left subtree has p values, where p is the largest power of two less
/// than `count`.
template <class Sum>
Sum sum_of_equal(Sum value, unsigned count) {
  if (count == 1) return value;
  const unsigned left = std::bit_ceil(count) / 2;
  return value * static_cast<Sum>(left) + sum_of_equal(value, count - left);
}

/// Divides `total`, element by element, into `replicas` shares whose canonical sum is exactly `total`, and writes the
/// share of `replica` to `target`. A share is total / replicas. For integers, the first replicas get the remainder. If
/// the floating-point quotients do not sum to exactly `total`, replica 0 gets `total` and the other replicas get 0. The
/// dtype must not be bool.
void write_exact_share(TensorView target, ConstTensorView total, int replica, int replicas) {
  HostEdit edit(target);
  write_share(edit.view(), total, replica, replicas);
  visit_dtype(target.dtype, [&]<class T>() {
    if constexpr (!std::integral<T>) {
      using Sum = sum_t<T>;
      T* const to = static_cast<T*>(edit.view().data);
      const T* const from = static_cast<const T*>(total.data);
      for (std::int64_t i = 0; i < target.element_count(); ++i) {
        const auto wanted = static_cast<Sum>(from[i]);
        const auto share = static_cast<Sum>(static_cast<T>(wanted / static_cast<Sum>(replicas)));
        const auto sum = static_cast<Sum>(static_cast<T>(sum_of_equal(share, static_cast<unsigned>(replicas))));
        if (sum == wanted || std::isnan(wanted)) continue;
        to[i] = replica == 0 ? from[i] : T{};
      }
    }
  });
  edit.finish();
}

/// Throws the error for a folder without a manifest.
[[noreturn]] void refuse_folder(const Path& folder) {
  throw_error(Code::invalid_argument, "restore: {} is not the folder of a checkpoint: it has no {}; {}",
              folder.string(), manifest_name,
              steps_in(folder).empty() ? "pass the folder of a save that was completed"
                                       : "it is a directory of checkpoints, so call restore(directory, step) or "
                                         "restore_latest(directory)");
}

}  // namespace

Restore::Restore(Checkpoint::Implementation& checkpoint, const Path& path, const RestoreOptions& options)
    : checkpoint_(checkpoint), path_(path), options_(options) {}

std::int64_t Restore::run() {
  Communicator& communicator = checkpoint_.communicator;
  run_on_all_ranks(communicator, [this] { read(); });
  require_same(communicator, fingerprint_, path_.string(), [](const TextOfRank& first, const TextOfRank& other) {
    return fmt::format(
        "restore: rank {} reads {} and rank {} reads {}, but the contents differ; all ranks must restore the same "
        "checkpoint, from a file system that they share",
        first.rank, first.text, other.rank, other.text);
  });
  // Opening an iterator may be collective, so prepare_words() starts only after read() has succeeded on all ranks.
  run_on_all_ranks(communicator, [this] { prepare_words(); });
  write();
  return manifest_ ? manifest_->step : -1;
}

void Restore::read() {
  if (path_.empty()) {
    throw_error(Code::invalid_argument,
                "restore: the path is \"\"; pass the folder of a checkpoint or a safetensors file");
  }
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path_, error);
  if (error) throw_system_error("restore from path", path_, error.value());
  if (is_folder && !std::filesystem::exists(path_ / manifest_name, error) && !error) refuse_folder(path_);
  file_ = is_folder ? path_ / state_name : path_;
  label_ = "restore: " + file_.string();
  std::string manifest_text;
  if (is_folder) {
    const Path manifest_file = path_ / manifest_name;
    manifest_text = read_text(manifest_file, most_manifest_bytes);
    manifest_ = parse_manifest(manifest_text, "restore: " + manifest_file.string());
  }
  const File file = File::open_to_read(file_);
  const std::uint64_t size = file.size();
  if (manifest_ && size != manifest_->file_bytes) {
    throw_error(Code::data_loss,
                "{}: the file has {} bytes, but {} of this checkpoint says {}; it is truncated or damaged", label_,
                size, manifest_name, manifest_->file_bytes);
  }
  std::string header_bytes(std::min<std::uint64_t>(size, 8), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(header_bytes)));
  const std::uint64_t length = header_length(header_bytes, size, label_);
  header_bytes.resize(8 + static_cast<std::size_t>(length));
  file.read_at(0, std::as_writable_bytes(std::span(header_bytes)));
  const std::uint32_t checksum = crc32c(std::as_bytes(std::span(header_bytes)));
  if (manifest_ && checksum != manifest_->header_checksum)
    throw_error(Code::data_loss, "{}: the checksum of the header is wrong; the file is damaged", label_);
  fingerprint_ = std::uint64_t{checksum} << 32 | crc32c(std::as_bytes(std::span(manifest_text)));
  header_ = parse_header(std::string_view(header_bytes).substr(8), size, label_);

  check_names();
  for (const auto& [name, variable] : checkpoint_.variables) check_tensor(name, variable);
  for (const auto& [name, variable] : checkpoint_.variables) {
    const std::string source = copies_fit(name, variable) ? copies_name(name) : name;
    loaded_.emplace(name, load(file, *find(source)));
  }
}

const TensorEntry* Restore::find(const std::string& name) const {
  const auto found = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                  [&name](const TensorEntry& entry) { return entry.name == name; });
  return found == header_.tensors.end() ? nullptr : &*found;
}

bool Restore::is_known(const std::string& name) const {
  if (checkpoint_.is_taken(name)) return true;
  constexpr std::string_view suffix = Checkpoint::Implementation::copies_suffix;
  return name.ends_with(suffix) && checkpoint_.is_taken(name.substr(0, name.size() - suffix.size()));
}

void Restore::check_names() const {
  for (const auto& [name, variable] : checkpoint_.variables) {
    if (find(name) != nullptr) continue;
    throw_error(Code::invalid_argument,
                "{}: the file has no tensor \"{}\"; a variable is tracked under this name. Track the objects that were "
                "saved, under the same names",
                label_, name);
  }
  for (const auto& [name, object] : checkpoint_.words) {
    const bool is_there = manifest_ && manifest_->words.contains(name) && manifest_->words.at(name).kind == object.kind;
    if (is_there) continue;
    throw_error(Code::invalid_argument,
                "{}: the checkpoint has no state of the {} \"{}\"; one is tracked under this name. Track the objects "
                "that were saved, under the same names",
                label_, shown_kind(object.kind), name);
  }
  if (options_.names == RestoredNames::tracked) return;
  const auto refuse = [this](const std::string& name) {
    if (is_known(name)) return;
    throw_error(Code::invalid_argument,
                "{}: the checkpoint has \"{}\"; no object is tracked under this name. Track it, or restore with "
                "RestoredNames::tracked to ignore it",
                label_, printable(name));
  };
  for (const TensorEntry& entry : header_.tensors) refuse(entry.name);
  if (!manifest_) return;
  for (const auto& [name, record] : manifest_->words) refuse(name);
}

void Restore::check_tensor(const std::string& name, const Variable& variable) const {
  const TensorEntry& entry = *find(name);
  if (entry.dtype != variable.dtype() || entry.shape != variable.shape()) {
    throw_error(Code::invalid_argument,
                "{}: tensor \"{}\" is {}{}, but variable \"{}\" is {}{}; dtype and shape must be equal", label_, name,
                to_string(entry.dtype), to_string(entry.shape), variable.name(), to_string(variable.dtype()),
                to_string(variable.shape()));
  }
  if (variable.dtype() == DType::boolean && is_on_read(variable) && replicas_of(variable) > 1 &&
      variable.aggregation() == VariableAggregation::sum) {
    throw_error(Code::invalid_argument,
                "{}: tensor \"{}\" is bool, so its value cannot be divided among {} replicas as shares of a sum; use "
                "another aggregation for the variable",
                label_, name, replicas_of(variable));
  }
}

bool Restore::copies_fit(const std::string& name, const Variable& variable) const {
  if (!is_on_read(variable) || replicas_of(variable) == 1) return false;
  const TensorEntry* const copies = find(copies_name(name));
  return copies != nullptr && copies->dtype == variable.dtype() &&
         copies->shape == Shape{replicas_of(variable), variable.element_count()};
}

Tensor Restore::load(const File& file, const TensorEntry& entry) const {
  // allocated from the heap, which returns large blocks to the operating system at once
  Tensor tensor = Tensor::uninitialized(entry.dtype, entry.shape, heap_memory_resource());
  const std::span<std::byte> bytes(static_cast<std::byte*>(tensor.data()), tensor.byte_count());
  const std::uint64_t each = manifest_ ? std::max<std::uint64_t>(manifest_->block_bytes, 1) : block_bytes;
  std::size_t number = 0;
  for (std::uint64_t offset = 0; offset < bytes.size(); offset += each) {
    const auto block = bytes.subspan(offset, std::min<std::uint64_t>(each, bytes.size() - offset));
    file.read_at(header_.data_offset + entry.begin + offset, block);
    if (manifest_) check_block(block, entry, number++);
  }
  check_elements(bytes, entry, label_);
  return tensor;
}

void Restore::check_block(std::span<const std::byte> bytes, const TensorEntry& entry, std::size_t number) const {
  const auto record = manifest_->tensors.find(entry.name);
  if (record == manifest_->tensors.end() || number >= record->second.checksums.size()) {
    throw_error(Code::data_loss,
                "{}: {} of this checkpoint has no checksum for tensor \"{}\"; it belongs to another file", label_,
                manifest_name, entry.name);
  }
  if (crc32c(bytes) != record->second.checksums[number]) {
    throw_error(
        Code::data_loss,
        "{}: the checksum of tensor \"{}\" is wrong in the {} bytes from byte {} of the tensor on; the file is damaged",
        label_, entry.name, bytes.size(), number * manifest_->block_bytes);
  }
}

void Restore::prepare_words() {
  const Communicator& communicator = checkpoint_.communicator;
  const int first = communicator.layout().first(communicator.rank());
  for (const auto& [name, object] : checkpoint_.words) {
    const Manifest::WordsRecord& record = manifest_->words.at(name);
    Checkpoint::Words words{record.common, {}};
    if (!record.of_replica.empty()) {
      for (int i = 0; i < communicator.local_replicas(); ++i) {
        const auto id = static_cast<std::size_t>(first) + static_cast<std::size_t>(i);
        words.of_replica.push_back(id < record.of_replica.size() ? record.of_replica[id] : 0);
      }
    }
    try {
      changes_.push_back(object.prepare(words));
    } catch (const std::out_of_range&) {
      throw_error(Code::data_loss, "restore: {}: the saved state of the {} \"{}\" is incomplete; the file is damaged",
                  path_.string(), shown_kind(object.kind), name);
    } catch (const Error& error) {
      throw_error(error.code(), "restore: {}: the {} \"{}\": {}", path_.string(), shown_kind(object.kind), name,
                  error.text());
    }
  }
}

void Restore::write() const {
  for (const auto& [name, variable] : checkpoint_.variables) {
    const Tensor& value = loaded_.at(name);
    const bool has_copies = copies_fit(name, variable);
    const int first = VariableAccess::team(variable).first_replica_id();
    const bool spreads = is_on_read(variable) && variable.aggregation() == VariableAggregation::sum;
    for (int i = 0; i < variable.component_count(); ++i) {
      VariableComponent component = variable.component(i);
      const std::size_t bytes = component.byte_count();
      if (bytes == 0) continue;
      if (has_copies) {
        const std::byte* const row =
            static_cast<const std::byte*>(value.data()) + static_cast<std::size_t>(first + i) * bytes;
        copy(component.view(), {row, component.dtype(), component.shape()});
      } else if (spreads && replicas_of(variable) > 1) {
        write_exact_share(component.view(), value.view(), first + i, replicas_of(variable));
      } else {
        copy(component.view(), value.view());
      }
    }
  }
  for (const auto& change : changes_) change();
}

}  // namespace lockstep::detail
